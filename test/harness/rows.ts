import * as v from "valibot";
import { Reply, toPage } from "../../src/http/envelope.ts";
import { defineRoute, events } from "../../src/http/route.ts";
import { EventStream } from "../../src/http/sse.ts";
import { wholeNumber } from "../../src/http/input.ts";
import type { BuiltInRoute } from "../../src/server/built-in-routes.ts";
import { defineSocket } from "../../src/sockets/socket.ts";

/** Counts of what the rows below did. */
export const seen = { made: 0, returned: 0 };

const Tick = v.object({ type: v.literal("tick"), n: v.number(), pad: v.optional(v.string()) });

/** Rows with a body and with events, before real ones exist. */
export const testRows: readonly BuiltInRoute[] = [
  defineRoute({
    method: "POST",
    path: "/test/echo",
    summary: "Sends the body back",
    access: "public",
    body: v.object({
      n: v.optional(v.number()),
      options: v.optional(
        v.object({ label: v.optional(v.string()), context: v.optional(v.record(v.string(), v.unknown())) }),
      ),
    }),
    responses: {
      200: v.object({ n: v.nullable(v.number()), label: v.optional(v.string()) }),
      202: v.object({ later: v.boolean() }),
    },
    handle({ body, request }) {
      if (request.headers.get("prefer") === "respond-async") {
        return new Reply({ later: true }, { status: 202, headers: [["x-execution-id", "e1"]] });
      }
      return { n: body.n ?? null, label: body.options?.label };
    },
  }),
  defineRoute({
    method: "GET",
    path: "/test/items/:id",
    summary: "Shows its parameters",
    access: "public",
    query: v.object({ limit: v.optional(wholeNumber(0, 10, "expected a whole number")) }),
    responses: { 200: v.object({ id: v.string(), limit: v.nullable(v.number()) }) },
    handle: ({ params, query }) => ({ id: params.id, limit: query.limit ?? null }),
  }),
  defineRoute({
    method: "GET",
    path: "/test/boom",
    summary: "Throws",
    access: "public",
    responses: { 200: v.null() },
    handle() {
      throw new Error("a detail that nobody may see");
    },
  }),
  defineRoute({
    method: "GET",
    path: "/test/undocumented/:what",
    summary: "Answers what its row does not say",
    access: "public",
    responses: { 200: v.object({ a: v.number() }) },
    handle({ params }) {
      if (params.what === "status") return new Reply({ a: 1 }, { status: 201 });
      if (params.what === "media") return toPage("a", "text/plain");
      return { a: params.what === "type" ? "1" : 1, ...(params.what === "field" && { b: 2 }) } as { a: number };
    },
  }),
  defineRoute({
    method: "GET",
    path: "/test/events/:kind",
    summary: "Streams: three, endless, silent or deaf after one, failing at once or later",
    access: "public",
    responses: { 200: events(Tick) },
    handle: ({ params }) => new EventStream((signal) => ticks(params.kind, signal), [["x-execution-id", "e1"]]),
  }),
  defineRoute({
    method: "GET",
    path: "/test/wait",
    summary: "Never answers",
    access: "protected",
    responses: { 200: v.null() },
    handle: () => new Promise<null>(() => {}),
  }),
  defineSocket({
    path: "/test/socket",
    summary: "Shows its query",
    query: v.object({ level: v.optional(v.picklist(["info", "warn"])) }),
    connect(peer, { query, identity }) {
      peer.send(JSON.stringify({ ...query, user: identity.caller?.user }));
      return {};
    },
  }),
];

async function* ticks(kind: string, signal: AbortSignal): AsyncGenerator<unknown> {
  try {
    if (kind === "failing") throw new Error("before the first event");
    if (kind === "late") await aborted(signal);
    const pad = kind === "endless" ? "x".repeat(1_000) : undefined;
    for (let n = 0; n < (kind === "three" ? 3 : Infinity); n++) {
      seen.made++;
      yield { type: "tick", n, pad };
      if (kind === "breaking") throw new Error("after the first event");
      if (kind === "silent") await aborted(signal);
      if (kind === "deaf") await new Promise(() => {});
      if (signal.aborted) return;
    }
  } finally {
    seen.returned++;
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
