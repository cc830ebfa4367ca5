import type { H3Event } from "h3";
import { FastURL } from "srvx";
import { notFound } from "../core/error.ts";

/** Replaces the URL of an event by the one that routers and the policy read. Throws a 404 for a path outside the base. */
export type EnterBase = (event: Pick<H3Event, "url">) => void;

/**
 * Creates the function that removes a base path, once, from the path of a request. It compares after h3 has decoded
 * needless escapes and resolved dot segments: the base path has no character that could be written in another way.
 */
export function createEnterBase(basePath: string): EnterBase {
  const inside = `${basePath}/`;
  return (event) => {
    const { protocol, host, pathname, search } = event.url;
    if (pathname !== basePath && !pathname.startsWith(inside)) throw notFound();
    // A new URL: that of the request still has the path that the client asked for.
    event.url = new FastURL(`${protocol}//${host}${pathname.slice(basePath.length) || "/"}${search}`);
  };
}

export const basePathRule = 'a path such as "/api/ai": letters, digits and . _ ~ - only, without a "/" at its end';

export function isBasePath(text: unknown): text is string {
  return typeof text === "string" && /^(?:\/(?!\.\.?(?:\/|$))[\w.~-]+)+$/.test(text) && text.length <= 200;
}
