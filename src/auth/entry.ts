import { METHODS } from "node:http";
import { H3 } from "h3";

/** The method and the path of an entry such as `GET /reports/*`. */
export interface Entry {
  /** Empty for `ALL`: that is every method in rou3. */
  readonly method: string;
  readonly path: string;
}

const methods = new Set([...METHODS, "QUERY", "ALL"]);

/**
 * Parses an entry of `publicRoutes` or `protect`. Returns undefined if it is invalid. The path is normalized as h3
 * would normalize a route of the same text, so that both cover the same requests. HEAD is invalid: an entry for GET
 * covers it.
 */
export function readEntry(text: unknown): Entry | undefined {
  const [, method, path] = /^([A-Z-]+) (\/\S*)$/.exec(typeof text === "string" ? text : "") ?? [];
  if (!method || !path || method === "HEAD" || !methods.has(method)) return undefined;
  try {
    const [registered] = new H3().all(path, () => {})["~routes"];
    // Uppercase escapes, as in `readingsOf`.
    const written = registered?.route?.replace(/%[0-9a-f]{2}/gi, (escape) => escape.toUpperCase());
    return written === undefined ? undefined : { method: method === "ALL" ? "" : method, path: written };
  } catch {
    return undefined;
  }
}
