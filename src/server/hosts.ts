import { isIP } from "node:net";

/** In `dev`: a page of another site may not reach us under a name that it made resolve to 127.0.0.1 (DNS rebinding). */
export function createHostCheck(allowed: readonly string[]): (host: string | null) => boolean {
  const names = new Set(["localhost", ...allowed.map((name) => name.toLowerCase())]);
  return (host) => {
    const name = (host ?? "").replace(/:\d+$/, "").toLowerCase();
    return names.has(name) || name.endsWith(".localhost") || isIP(name.replace(/^\[|\]$/g, "")) > 0;
  };
}
