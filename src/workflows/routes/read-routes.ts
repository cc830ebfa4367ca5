import * as v from "valibot";
import { Reply } from "../../http/envelope.ts";
import { commaList, wholeNumber } from "../../http/input.ts";
import { defineRoute, events, nothing, type Route } from "../../http/route.ts";
import { EventStream } from "../../http/sse.ts";
import { mayFork, mayInspect, mayResume } from "../access.ts";
import { findExecution, type Workflows } from "../find.ts";
import { toStateView, type StateView } from "../results.ts";
import { EventShape, StateShape } from "./shapes.ts";
import { cannotRead, manyStreams, unknownExecution } from "./errors.ts";
import { follow } from "./follow.ts";
import { idHeader, type WorkflowRoutesOptions } from "./replies.ts";

const seqRule = "expected the seq of an event";
const Seq = wholeNumber(0, 999_999_999_999_999, seqRule);
/** The `id:` of an event, or of the result event: `<seq>.end`. */
const LastEventId = v.union([Seq, v.pipe(v.string(), v.regex(/^\d{1,15}\.end$/, seqRule))], seqRule);
const AttachQuery = v.object({
  after: v.optional(Seq),
  until: v.optional(v.picklist(["end"], "expected end")),
});

/** The routes that show one execution. */
export function readRoutes(options: WorkflowRoutesOptions): readonly Route<Workflows>[] {
  const { engine, showErrors } = options;
  return [
    defineRoute({
      method: "GET",
      path: "/workflows/:id/executions/:executionId/state",
      summary: "Get an execution",
      description:
        "The response has the status, the input and the context, and the result, the error or the suspension. With `include=access`, an execution that is not running has `mayFork`, and a suspended one `mayResume`: whether the caller may do that.",
      access: "public",
      action: "execution.read",
      query: v.object({ include: v.optional(commaList(["access"])) }),
      responses: { 200: StateShape },
      errors: { ...unknownExecution, ...cannotRead },
      find: (head) => findExecution(engine, head),
      async handle(head) {
        const { found } = head;
        const isInspector = found.retriedBy !== undefined && (await mayInspect(head, found, showErrors));
        const view: StateView = toStateView(found, showErrors, isInspector);
        if (head.query.include && found.status !== "running") view.mayFork = await mayFork(head, found);
        if (head.query.include && found.status === "suspended") view.mayResume = await mayResume(head, found);
        return new Reply(view, { headers: idHeader(view.executionId) });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/workflows/:id/executions/:executionId/stream",
      summary: "Follow an execution: past events, then live events, until it ends or suspends",
      description:
        "`after`, or else `Last-Event-ID`, is the `seq` of the last event that the client has. With `until=end` the stream stays open while the execution is suspended. The last event has the id `<seq>.end`: sent as `Last-Event-ID`, it gets a 204 if nothing has happened since.",
      access: "protected",
      action: "execution.read",
      headers: { "Last-Event-ID": v.optional(LastEventId) },
      query: AttachQuery,
      responses: { 200: events(EventShape), 204: nothing },
      errors: { ...unknownExecution, 429: manyStreams, 503: "Too many open streams, or storage cannot be read" },
      find: (head) => findExecution(engine, head),
      handle({ query, headers, found }) {
        const { after, until } = query;
        const lastId = after ?? headers["Last-Event-ID"] ?? 0;
        const from = { after: Number.parseInt(String(lastId), 10), hasResult: typeof lastId === "string", until };
        const { id } = found.execution;
        const isOpen = found.status === "running" || (until === "end" && found.status === "suspended");
        const attach = (signal: AbortSignal) =>
          follow(options, engine.events(id, from.after, signal, { until }), id, { signal, ...from });
        const about = { ids: true, fields: { executionId: id } };
        return new EventStream(attach, idHeader(id), { ...about, isDetached: true, beginsEarly: isOpen });
      },
    }),
  ];
}
