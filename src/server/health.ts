import * as v from "valibot";
import { busy } from "../core/error.ts";
import { Reply, type HeaderPairs } from "../http/envelope.ts";
import { defineRoute, type Route } from "../http/route.ts";

/** The parts of a server that decide whether it is ready for requests. */
export interface Readiness {
  isDraining(): boolean;
  isRecovered(): boolean;
  isWritable(): boolean;
}

/** The checks in a row that find the storage unwritable before a server is not ready: a slow moment must not cost a replica. */
const maxFailures = 3;

/** The entries that `publicRoutes` begins with, unless the host has such a route itself. */
export const healthEntries: readonly string[] = ["GET /health", "GET /ready"];

/** The routes of load balancers and supervisors. They show no details, because anyone may call them. */
export function healthRoutes(readiness: Readiness): readonly Route<unknown>[] {
  let failures = 0;
  const isWritable = cached(() => {
    failures = readiness.isWritable() ? 0 : failures + 1;
    return failures < maxFailures;
  }, 1_000);
  return [
    defineRoute({
      method: "GET",
      path: "/health",
      summary: "Check that the process is alive",
      description: "Answers 200 for as long as the process can answer at all.",
      access: "public",
      yields: true,
      needsStore: false,
      responses: { 200: v.object({ status: v.literal("ok") }) },
      handle: () => new Reply({ status: "ok" }, { headers: uncached }),
    }),
    defineRoute({
      method: "GET",
      path: "/ready",
      summary: "Check that the server can take requests",
      description:
        "Answers 503 while the server starts or shuts down, and when its storage could not be written at three checks in a row, a second apart at least.",
      access: "public",
      yields: true,
      needsStore: false,
      responses: { 200: v.object({ status: v.literal("ready") }) },
      errors: { 503: "The server is starting or shutting down, or storage cannot be written" },
      handle() {
        const isReady = !readiness.isDraining() && readiness.isRecovered() && isWritable();
        if (!isReady) throw busy("Not ready", 1);
        return new Reply({ status: "ready" }, { headers: uncached });
      },
    }),
  ];
}

const uncached: HeaderPairs = [["cache-control", "no-store"]];

/** Calls a check at most once in `ms`, however often it is asked. */
function cached(check: () => boolean, ms: number): () => boolean {
  let until = -Infinity;
  let last = false;
  return () => {
    if (performance.now() < until) return last;
    until = performance.now() + ms;
    return (last = check());
  };
}
