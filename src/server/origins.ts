import { ServeError } from "../core/error.ts";

export const notAllowed = (): ServeError => new ServeError(403, "Origin not allowed");

/**
 * A browser sends some requests without asking first, and a page need not see the answer to do harm. Over https and on
 * localhost it says itself which come from elsewhere, and is right behind a proxy that changes the Host, too.
 */
export function isForeign({ method, headers }: Request, url: URL): boolean {
  const origin = headers.get("origin");
  if (method === "GET" || method === "HEAD" || method === "OPTIONS" || origin === null) return false;
  const site = headers.get("sec-fetch-site");
  return site === null ? !isOwn(origin, url) : site === "cross-site" || site === "same-site";
}

/** By host: behind a proxy that ends TLS, our scheme is not the one that the browser sees. */
export function isOwn(origin: string, { host }: URL): boolean {
  return URL.parse(origin)?.host === host;
}

/** Whether a header is about who may read an answer. */
export const isCrossOrigin = ([name]: [string, string]): boolean =>
  name === "vary" || name.startsWith("access-control-");
