import type { AuthProvider } from "../../auth/provider.ts";
import { ServeError } from "../../core/error.ts";
import type { Cors } from "../../http/cors.ts";

/**
 * Returns true for a foreign request that may change data. A browser sends some of them without a preflight, and a page can do
 * harm without reading the response. Over https and on localhost the browser sends `sec-fetch-site`, which is correct even
 * behind a proxy with another Host.
 */
export function isForeign({ method, headers }: Request, url: URL): boolean {
  if (method === "GET" || method === "HEAD" || method === "OPTIONS") return false;
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site === "cross-site" || site === "same-site";
  const origin = headers.get("origin");
  return origin !== null && !isOwn(origin, url);
}

/**
 * Returns the check of foreign origins. A browser adds cookies to the requests of every page. So under a provider that
 * may read its token from a cookie, an origin must be named in `cors.origin`: the default `*` does not name any.
 */
export function createOriginCheck(cors: Cors, auth: AuthProvider | undefined): (origin: string | null) => void {
  const accepts = auth?.extractToken ? cors.names : cors.allows;
  return (origin) => {
    if (!accepts(origin ?? "null")) throw new ServeError(403, "Origin not allowed");
  };
}

/** Compares only the hosts: behind a proxy with TLS, the browser sees another scheme. */
export function isOwn(origin: string, { host }: URL): boolean {
  return URL.parse(origin)?.host === host;
}

/** Returns true for a header about the pages that may read a response. */
export const isCrossOrigin = ([name]: [string, string]): boolean =>
  name === "vary" || name.startsWith("access-control-");
