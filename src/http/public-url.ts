import { isBasePath } from "./path.ts";
import { createProxyReader } from "./client-address.ts";

/** The URL under which the client reaches the server. */
export interface PublicUrl {
  readonly origin: string;
  /** The path in front of a route's path: the proxy's prefix and the base path. May be empty. */
  readonly path: string;
}

export type PublicUrlReader = (request: Request) => PublicUrl;

export interface PublicUrlOptions {
  readonly trustedProxies: readonly string[];
  readonly basePath?: string | undefined;
}

/**
 * Creates a reader. `X-Forwarded-Proto`, `-Host` and `-Prefix` from a trusted proxy replace parts of the URL. An
 * invalid value is ignored. Without trusted proxies, all of them are.
 */
export function createPublicUrlReader({ trustedProxies, basePath = "" }: PublicUrlOptions): PublicUrlReader {
  const { countHops } = createProxyReader(trustedProxies);
  return (request) => {
    const { protocol, host } = new URL(request.url);
    const hops = countHops(request);
    const read = (name: string): string =>
      hops > 0 ? toHopValue(request.headers.get(`x-forwarded-${name}`), hops) : "";
    const [proto, forwardedHost, prefix] = [
      read("proto").toLowerCase(),
      read("host"),
      read("prefix").replace(/\/$/, ""),
    ];
    const scheme = proto === "http" || proto === "https" ? `${proto}:` : protocol;
    return {
      origin: `${scheme}//${isHostName(forwardedHost) ? forwardedHost : host}`,
      path: (isBasePath(prefix) ? prefix : "") + basePath,
    };
  };
}

/** Each proxy may append its value to a list. Returns the value from the outermost trusted proxy. */
function toHopValue(header: string | null, hops: number): string {
  const values = (header ?? "").split(",");
  return (values.at(-hops) ?? values[0] ?? "").trim();
}

const isHostName = (text: string): boolean =>
  text.length <= 255 &&
  /^(?:[\w-]+(?:\.[\w-]+)*\.?|\[[\da-f:.]+\])(?::\d{1,5})?$/i.test(text) &&
  URL.canParse(`http://${text}`);
