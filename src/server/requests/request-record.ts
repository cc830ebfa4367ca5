import type { Activity } from "../../core/log.ts";
import type { H3Event } from "h3";
import type { OnEnded } from "../../core/byte-budget.ts";
import { runInScope, type Scope } from "../../core/scope.ts";
import { DirectAnswer, type Answer } from "../../http/envelope.ts";
import { EventAnswer } from "../../http/event-answer.ts";
import type { Table } from "../../http/table.ts";
import type { Counters, RouteCounts } from "../../observability/metrics/counters.ts";
import type { BuiltInRoute } from "../built-in-routes.ts";

declare module "h3" {
  interface H3EventContext {
    [arrival]?: { readonly record: RequestRecord; readonly incoming: Incoming | undefined };
  }
}
const arrival: unique symbol = Symbol("arrival");

/** A request as it arrives, over the network or from a host. */
export interface Incoming {
  /** The request, with a body of at most `bodyBytes`. */
  readonly request: Request;
  /** Returns the request with another limit of its body, or the same request if its body has been touched. */
  readonly withBodyLimit: (bytes: number) => Request;
  /** Registers a callback for the end of the response. */
  readonly onEnded: OnEnded;
  /** Called if the rest of the response does not need the snapshot. */
  readonly release: () => void;
}

/** Keeps a request with its event. A WebSocket has no `Incoming`, and no route that reads it. */
export function setArrival({ context }: H3Event, record: RequestRecord, incoming: Incoming | undefined): void {
  context[arrival] = { record, incoming };
}
export const recordOf = ({ context }: H3Event): RequestRecord => context[arrival]!.record;
export const incomingOf = ({ context }: H3Event): Incoming => context[arrival]!.incoming!;

/** The facts about one request for the log and the metrics. The log has the pattern of the route, never the path or the query. */
export class RequestRecord {
  readonly requestId: string;
  readonly #began = performance.now();
  readonly #method: string;
  /** The ids of the log record. */
  scope: Scope;
  /** The route, if one has matched. */
  route: MatchedRoute | undefined;
  /** True for a request that is logged at `debug`: a probe, a preflight, a page file or a console read. */
  isQuiet = false;
  /** True for a request without a span. */
  isUntraced = false;

  constructor(method: string, requestId: string) {
    this.#method = method;
    this.requestId = requestId;
    this.scope = { requestId };
  }

  /** Milliseconds since the start of the request. */
  ms(): number {
    return performance.now() - this.#began;
  }

  /** Reads the address. Probes from monitoring and browsers are quiet. */
  readAddress({ pathname, searchParams }: URL): void {
    this.isQuiet ||=
      quietPaths.has(pathname) ||
      (pathname === "/ui" && searchParams.has("file")) ||
      pathname.startsWith("/console/assets/");
  }

  /** Logs the record when the headers of the response are known. A stream may last for any time after that. */
  log(activity: Activity, { status, isStream }: { status: number; isStream: boolean }): void {
    const ms = Math.round(this.ms() * 10) / 10;
    const route = this.route?.path ?? this.route?.route;
    const data = { method: this.#method, route, status, ms, ...(isStream && { stream: true }) };
    runInScope(this.scope, () => activity.log("Request completed", data, { quiet: this.isQuiet }));
  }
}

/** Returns the status of a response, and whether it is a stream of events. */
export function toOutcome(answer: Answer): { status: number; isStream: boolean } {
  const { status } = answer;
  if (answer instanceof DirectAnswer) return { status, isStream: answer instanceof EventAnswer };
  return { status, isStream: answer.headers.get("content-type")?.startsWith("text/event-stream") ?? false };
}

const quietPaths = new Set([
  "/health",
  "/ready",
  "/metrics",
  "/favicon.ico",
  "/.well-known/appspecific/com.chrome.devtools.json",
]);

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
