import type { Activity } from "../../core/log.ts";
import { runInScope, type Scope } from "../../core/scope.ts";
import type { MatchedRoute } from "./route-counts.ts";
import { DirectAnswer, type Answer } from "../../http/envelope.ts";
import { EventAnswer } from "../../http/event-answer.ts";

/** The facts about one request for the log and the metrics. The log has the pattern of the route, never the path or the query. */
export class RequestRecord {
  readonly requestId: string;
  readonly #began = performance.now();
  readonly #method: string;
  /** The ids of the log record. */
  scope: Scope;
  /** The route, if one has matched. */
  route: MatchedRoute | undefined;
  /** True for a request that is logged at `debug`: a probe, a preflight, a file of a page or a read of the console. */
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

  /** Notes the address. Probes of monitoring and of browsers are quiet. */
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
