import { isIP } from "node:net";

/** Returns true if only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase();
  if (name === "localhost" || name.endsWith(".localhost") || name === "::1") return true;
  return isIP(name) === 4 && name.startsWith("127.");
}
