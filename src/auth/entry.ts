import { METHODS } from "node:http";
import { H3 } from "h3";

/** Of `GET /reports/*`, the method and the path. */
export interface Entry {
  /** Empty for `ALL`: every method, as rou3 has it. */
  readonly method: string;
  readonly path: string;
}

const methods = new Set([...METHODS, "QUERY", "ALL"]);

/**
 * The parts of an entry of `publicRoutes` or `protect`; undefined when it is none. Its path is written as h3 would register
 * a route of the same text, so that the two cover the same requests. A HEAD is a GET.
 */
export function readEntry(text: unknown): Entry | undefined {
  const [, method, path] = /^([A-Z-]+) (\/\S*)$/.exec(typeof text === "string" ? text : "") ?? [];
  if (!method || !path || method === "HEAD" || !methods.has(method)) return undefined;
  try {
    const [registered] = new H3().all(path, () => {})["~routes"];
    // Escapes in capitals, as readings have them.
    const written = registered!.route!.replace(/%[0-9a-f]{2}/gi, (escape) => escape.toUpperCase());
    return { method: method === "ALL" ? "" : method, path: written };
  } catch {
    return undefined;
  }
}
