import { addRoute, compareRoutes, createRouter, findRoute } from "rou3";
import { badRequest } from "../core/error.ts";

interface TableRoute {
  readonly method: string;
  readonly path: string;
}
export interface Match<R> {
  readonly route: R;
  readonly params: Record<string, string>;
}
export interface Table<R> {
  readonly routes: readonly R[];
  /** HEAD is GET. */
  find(method: string, path: string): Match<R> | undefined;
  /** The methods under which this path would have matched; empty when it is unknown. */
  allowed(path: string): string[];
  /** The route that hides another route for every path it could match. */
  hides(method: string, pattern: string): R | undefined;
}

/** The built-in routes behind the router that h3 itself uses, so both read a path in the same way. */
export function createTable<R extends TableRoute>(routes: readonly R[]): Table<R> {
  const router = createRouter<R>();
  for (const route of routes) addRoute(router, route.method, route.path, route);
  const methods = [...new Set(routes.map((route) => route.method))];
  return {
    routes,
    find(method, path) {
      const match = findRoute(router, method === "HEAD" ? "GET" : method, path);
      return match && { route: match.data, params: decode(match.params) };
    },
    allowed(path) {
      const matching = methods.filter((method) => findRoute(router, method, path, { params: false }));
      return matching.includes("GET") ? [...matching, "HEAD"] : matching;
    },
    hides(method, pattern) {
      const wanted = method === "HEAD" ? "GET" : method;
      return routes.find((route) => route.method === wanted && hiding.has(compareRoutes(route.path, pattern)));
    },
  };
}

const hiding = new Set(["equal", "superset"]);
const none: Record<string, string> = {};

function decode(params: Record<string, string> | undefined): Record<string, string> {
  if (!params) return none;
  for (const name in params) {
    if (!params[name]!.includes("%")) continue;
    try {
      params[name] = decodeURIComponent(params[name]!);
    } catch (cause) {
      throw badRequest(`Invalid path: ${name} is not percent-encoded UTF-8`, cause);
    }
  }
  return params;
}
