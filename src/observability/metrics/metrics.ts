import { admit, type Authorized } from "../../core/access/authorizer.ts";
import type { EngineLoad } from "../../engine/contract/engine.ts";
import { Page } from "../../http/envelope.ts";
import { defineRoute, page, type Route } from "../../http/route.ts";
import { Counters } from "./counters.ts";
import { createLoopMonitor } from "./event-loop.ts";
import { mediaType } from "./exposition.ts";
import { writeMetrics } from "./write-metrics.ts";

/** The server parts whose numbers are read for each response. */
interface MetricsSources {
  load(workflowIds: Iterable<string>): Promise<EngineLoad>;
  streams(): number;
}

/** The ids of a config version. */
interface Registered extends Authorized {
  readonly workflows: ReadonlyMap<string, unknown>;
}

export interface ServerMetrics {
  readonly counters: Counters;
  /** Creates the route `GET /metrics`. */
  route(sources: MetricsSources): Route<Registered>;
  close(): void;
}

export function createMetrics(): ServerMetrics {
  const counters = new Counters();
  const loop = createLoopMonitor();
  return {
    counters,
    close: () => loop.close(),
    route: ({ load, streams }) =>
      defineRoute({
        method: "GET",
        path: "/metrics",
        summary: "Numbers of the server in the Prometheus text format",
        description: "Requests, executions, model calls, tokens, storage and the event loop.",
        access: "protected",
        action: "metrics.read",
        yields: true,
        responses: { 200: page("text/plain") },
        find: (head) => admit(head, undefined),
        async handle({ snapshot }: { snapshot: Registered }) {
          // Storage that cannot be read hides its own numbers only.
          const known = await load(snapshot.workflows.keys()).catch(() => undefined);
          const text = writeMetrics(counters, { load: known, streams: streams(), loopDelay: loop.read() });
          return new Page(text, { "content-type": mediaType, "cache-control": "no-store" });
        },
      }),
  };
}
