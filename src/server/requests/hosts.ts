import { isIPv4, isIPv6 } from "node:net";

/** In `dev`, rejects foreign Host names: a page could make its own name resolve to 127.0.0.1 (DNS rebinding). */
export function createHostCheck(allowed: readonly string[]): (host: string | null) => boolean {
  const names = new Set(["localhost", ...allowed.map((name) => name.toLowerCase())]);
  return (host) => {
    const [, address, name, port = "0"] = hostRule.exec((host ?? "").toLowerCase()) ?? [];
    if (Number(port) > 65_535) return false;
    if (address !== undefined) return isIPv6(address);
    return name !== undefined && (names.has(name) || name.endsWith(".localhost") || isIPv4(name));
  };
}

/** `[address]` or a name of non-empty labels, with or without a port. No user, zone, trailing dot or empty port. */
const hostRule = /^(?:\[([\da-f:.]+)\]|([\w-]+(?:\.[\w-]+)*))(?::(\d{1,5}))?$/;

/**
 * Checks that a host is valid in a URL, because a mounted app would build a URL from it. The last valid host is cached:
 * most requests have the same one.
 */
export function createHostReader(): (host: string) => boolean {
  let known = "";
  return (host) => {
    if (host === known) return true;
    const isHost = URL.canParse(`http://${host}`);
    if (isHost) known = host;
    return isHost;
  };
}
