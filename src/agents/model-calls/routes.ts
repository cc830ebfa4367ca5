import * as v from "valibot";
import { cut } from "../../core/cut.ts";
import { badRequest, notFound } from "../../core/error.ts";
import { maxPageBytes } from "../../engine/stored/listed-value.ts";
import { AnyObject } from "../../http/input.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import { findAsked, mayInspect } from "../conversations/access.ts";
import { UserQuery } from "../conversations/shapes.ts";
import type { Agents } from "../agents.ts";
import type { AgentsOfSnapshot } from "../find-agent.ts";
import { UsageShape } from "../shapes.ts";
import type { KeptCall, ModelCallView } from "./kept-call.ts";

const Time = v.pipe(v.string(), v.isoTimestamp());
const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const ModelCallShape: v.GenericSchema<ModelCallView> = v.pipe(
  v.object({
    index: Count,
    startAt: Time,
    endAt: v.nullable(Time),
    ms: v.nullable(Count),
    model: v.object({ provider: v.string(), modelId: v.string() }),
    prompt: v.optional(v.array(AnyObject)),
    omittedMessages: v.optional(Count),
    instructions: v.optional(v.string()),
    tools: v.optional(v.array(v.string())),
    parts: v.array(v.unknown()),
    finishReason: v.nullable(v.string()),
    usage: v.nullable(UsageShape),
    error: v.optional(v.string()),
  }),
  v.title("ModelCall"),
);

/** The route that shows the model calls of a turn. */
export function modelCallRoutes(agents: Agents, isDev: boolean): readonly Route<AgentsOfSnapshot>[] {
  return [
    defineRoute({
      method: "GET",
      path: "/agents/:id/conversations/:conversationId/turns/:turnId/steps",
      summary: "List the model calls of a turn",
      description:
        "`turnId` is the id of the answer. The calls of the last turns are kept in memory where the console is on; those of other turns are a 404. `prompt` and `instructions` are present if the caller may also inspect executions. A text over 64 KiB is cut, and the object around it has `truncated`; a file over 16 KiB has `bytes` in place of its data. A page ends after 4 MiB; `cursor` is the `nextCursor` of the page before.",
      access: "protected",
      action: "conversation.read",
      others: "conversation.others.read",
      yields: true,
      query: v.object({ ...UserQuery.entries, cursor: v.optional(v.string()) }),
      responses: { 200: v.object({ items: v.array(ModelCallShape), nextCursor: v.nullable(v.string()) }) },
      errors: {
        404: "Agent, conversation or turn not found, or the calls of the turn are not kept",
        503: "Storage cannot be read, or the server is shutting down",
      },
      find: (request) => findAsked(agents.conversations, request),
      async handle({ found, params, query, identity, snapshot }) {
        const { key, conversation } = found;
        const calls = agents.calls.modelCalls?.find(key, params.turnId);
        if (!calls) throw notFound(`The model calls of turn ${cut(params.turnId)} are not kept`);
        const hasPrompts = await mayInspect({ identity, snapshot }, key, conversation, isDev);
        return toPage(calls, fromCursor(query.cursor), hasPrompts);
      },
    }),
  ];
}

function toPage(
  calls: readonly KeptCall[],
  from: number,
  hasPrompts: boolean,
): { items: ModelCallView[]; nextCursor: string | null } {
  const items: ModelCallView[] = [];
  let bytes = 0;
  for (const call of calls) {
    if (call.index < from) continue;
    if (items.length > 0 && bytes + call.bytes > maxPageBytes) return { items, nextCursor: toCursor(call.index) };
    bytes += call.bytes;
    items.push(call.toView(hasPrompts));
  }
  return { items, nextCursor: null };
}

// A cursor is opaque, so that it can change: a client must not compute one.
const toCursor = (index: number): string => Buffer.from(`call ${index}`).toString("base64url");

function fromCursor(cursor: string | undefined): number {
  if (cursor === undefined) return 0;
  const [, index] = /^call (\d{1,9})$/.exec(Buffer.from(cursor, "base64url").toString()) ?? [];
  if (!index) throw badRequest("Invalid query: cursor: expected the nextCursor of a previous response");
  return Number(index);
}
