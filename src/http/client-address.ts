import { BlockList, isIP, isIPv4 } from "node:net";

/** Reads the headers of proxies. */
export interface ProxyReader {
  /** Returns the address of the client, or undefined if it is not known. */
  findAddress(request: Request): string | undefined;
  /** Returns the number of trusted proxies in a row, from the server to the client. 0 if its peer is not trusted. */
  countHops(request: Request): number;
}

/**
 * Creates a reader. Each proxy appends the address of its peer to `X-Forwarded-For`, and a client can send any text in
 * front of that. So the client is the right-most address that does not belong to a trusted proxy.
 */
export function createProxyReader(trustedProxies: readonly string[]): ProxyReader {
  const trusted = toBlockList(trustedProxies);
  return { findAddress: (request) => walk(request).client, countHops: (request) => walk(request).hops };

  function walk(request: Request): { client: string | undefined; hops: number } {
    let client = toAddress((request as { ip?: string }).ip ?? ""); // set by srvx on Node
    if (client === undefined || !isTrusted(client)) return { client, hops: 0 };
    let hops = 1;
    const forwarded = (request.headers.get("x-forwarded-for") ?? "").split(",");
    for (const text of forwarded.toReversed()) {
      const address = toAddress(text.trim());
      if (address === undefined) break; // not written by a proxy that we trust
      client = address;
      if (!isTrusted(address)) break;
      hops++;
    }
    return { client, hops };
  }

  function isTrusted(address: string): boolean {
    return trusted.check(address, isIPv4(address) ? "ipv4" : "ipv6");
  }
}

export const proxyRule = 'an address, a network such as "10.0.0.0/8", or "loopback"';
export const isProxy = (text: unknown): boolean => text === "loopback" || toNetwork(text) !== undefined;

function toBlockList(proxies: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of proxies.flatMap((proxy) => (proxy === "loopback" ? ["127.0.0.0/8", "::1"] : proxy))) {
    const { address, bits } = toNetwork(text)!;
    list.addSubnet(address, bits, isIPv4(address) ? "ipv4" : "ipv6");
  }
  return list;
}

function toNetwork(text: unknown): { address: string; bits: number } | undefined {
  const [, address = "", bits] = /^([\da-f.:]+)(?:\/(\d{1,3}))?$/i.exec(typeof text === "string" ? text : "") ?? [];
  const max = isIPv4(address) ? 32 : 128;
  const asked = Number(bits ?? max);
  return isIP(address) !== 0 && asked <= max ? { address, bits: asked } : undefined;
}

/** Returns an address without its port, brackets or zone. An IPv4 address inside an IPv6 address becomes IPv4. */
function toAddress(text: string): string | undefined {
  const bare = text
    .replace(/^\[([^\]]*)\](?::\d+)?$/, "$1")
    .replace(/^([\d.]+):\d+$/, "$1")
    .replace(/%.*$/, "");
  const [, mapped] = /^::ffff:([\d.]+)$/i.exec(bare) ?? [];
  const address = mapped ?? bare;
  return isIP(address) === 0 ? undefined : address;
}

/** Returns the network of one subscriber: an IPv4 address, or the first 64 bits of an IPv6 address. */
export function toSubscriber(address: string): string {
  if (isIPv4(address)) return address;
  const [head = "", tail] = address.toLowerCase().split("::");
  const left = toGroups(head);
  const right = toGroups(tail ?? "");
  const zeros: string[] = Array.from({ length: tail === undefined ? 0 : 8 - left.length - right.length }, () => "0");
  const groups = [...left, ...zeros, ...right].slice(0, 4);
  return `${groups.map((group) => group.replace(/^0+(?=.)/, "")).join(":")}::/64`;
}

/** Splits a piece of an IPv6 address into 16-bit groups. An IPv4 address at the end takes two groups. */
function toGroups(part: string): string[] {
  const groups = part === "" ? [] : part.split(":");
  return groups.at(-1)?.includes(".") ? [...groups.slice(0, -1), "ipv4", "ipv4"] : groups;
}
