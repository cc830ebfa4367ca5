import { isIP } from "node:net";

/** In `dev`: a page of another site may not reach us under a name that it made resolve to 127.0.0.1 (DNS rebinding). */
export function createHostCheck(allowed: readonly string[]): (host: string | null) => boolean {
  const names = new Set(["localhost", ...allowed.map((name) => name.toLowerCase())]);
  return (host) => {
    const name = (host ?? "").replace(/:\d+$/, "").toLowerCase();
    return names.has(name) || name.endsWith(".localhost") || isIP(name.replace(/^\[|\]$/g, "")) > 0;
  };
}

/** Whether a URL can hold this host: a mounted app would make one of it. Most requests come under the same name. */
export function createHostReader(): (host: string) => boolean {
  let known = "";
  return (host) => {
    if (host === known) return true;
    const isHost = URL.canParse(`http://${host}`);
    if (isHost) known = host;
    return isHost;
  };
}
