import { ServeError } from "../core/error.ts";

export const notAllowed = (): ServeError => new ServeError(403, "Origin not allowed");

/**
 * Returns true for a request from a foreign origin that may change data. A browser sends some of them without a
 * preflight, and a page can do harm without reading the response. Over https and on localhost the browser sends
 * `sec-fetch-site`, which is correct even behind a proxy that changes the Host.
 */
export function isForeign({ method, headers }: Request, url: URL): boolean {
  const origin = headers.get("origin");
  if (method === "GET" || method === "HEAD" || method === "OPTIONS" || origin === null) return false;
  const site = headers.get("sec-fetch-site");
  return site === null ? !isOwn(origin, url) : site === "cross-site" || site === "same-site";
}

/** Compares only the hosts: behind a proxy that terminates TLS, our scheme is not the one that the browser sees. */
export function isOwn(origin: string, { host }: URL): boolean {
  return URL.parse(origin)?.host === host;
}

/** Returns true for a header that controls which pages may read a response. */
export const isCrossOrigin = ([name]: [string, string]): boolean =>
  name === "vary" || name.startsWith("access-control-");
