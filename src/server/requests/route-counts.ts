import type { Table } from "../../http/table.ts";
import type { Counters, RouteCounts } from "../../observability/metrics/counters.ts";
import type { BuiltInRoute } from "../built-in-routes.ts";

/** A route of the table, or of h3. h3 has no method for a route of all methods. */
export interface MatchedRoute {
  readonly method?: string | undefined;
  readonly path?: string | undefined;
  readonly route?: string | undefined;
}

/** Returns a function from the route that matched to its numbers. A label is built once for each route of the config. */
export function createRouteCounts(
  table: Table<BuiltInRoute>,
  counters: Counters,
): (route: MatchedRoute | undefined) => RouteCounts {
  const { otherRoute } = counters;
  const known = new Map<MatchedRoute, RouteCounts>(
    table.routes.map((route) => [route, counters.route(toLabel(route))]),
  );
  return (route) => {
    if (!route) return otherRoute;
    const counts = known.get(route) ?? counters.route(toLabel(route));
    known.set(route, counts);
    return counts;
  };
}

const toLabel = ({ method, path, route }: MatchedRoute): string => `${method || "ALL"} ${path ?? route}`;
