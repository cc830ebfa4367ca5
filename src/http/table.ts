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
  /** Finds the route of a request. A HEAD matches the GET route. */
  find(method: string, path: string): Match<R> | undefined;
  /** Returns the methods that match a path. Empty if the path is unknown. */
  allowed(path: string): string[];
  /** Returns a built-in route that matches every path of this pattern: it makes the pattern unreachable. */
  hides(method: string, pattern: string): R | undefined;
}

/** Builds the table on h3's router, so that built-in and custom routes read a path in the same way. */
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
    const value = params[name];
    if (!value?.includes("%")) continue;
    try {
      params[name] = decodeURIComponent(value);
    } catch (cause) {
      throw badRequest(`Invalid path: ${name} is not percent-encoded UTF-8`, cause);
    }
  }
  return params;
}
