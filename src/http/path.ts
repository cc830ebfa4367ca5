import type { H3Event } from "h3";
import { FastURL } from "srvx";
import { notFound, ServeError } from "../core/error.ts";

/** Replaces the URL of an event by the URL for routers and the policy. Throws a 404 for a path outside the base. */
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
    // A new URL: the request keeps the client's path.
    event.url = new FastURL(`${protocol}//${host}${pathname.slice(basePath.length) || "/"}${search}`);
  };
}

export const basePathRule = 'a path such as "/api/ai": letters, digits and . _ ~ - only, without a "/" at its end';

export function isBasePath(text: unknown): text is string {
  return typeof text === "string" && /^(?:\/(?!\.\.?(?:\/|$))[\w.~-]+)+$/.test(text) && text.length <= 200;
}

const maxCharacters = 2_048;
const maxSegments = 64;

/** Refuses a path that would take long to match. Called before any router or policy reads the path. */
export function checkPath(path: string): void {
  // A segment has at least its slash, so short paths need no count.
  if (path.length <= maxSegments) return;
  if (path.length > maxCharacters || path.split("/", maxSegments + 2).length - 1 > maxSegments) {
    throw new ServeError(
      414,
      `Path too long: expected at most ${maxCharacters} characters and ${maxSegments} segments`,
    );
  }
}
