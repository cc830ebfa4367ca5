import * as v from "valibot";
import { forbidden, type ActionRequest } from "../../core/access/authorizer.ts";
import { applyIdentity } from "../../core/caller.ts";
import { toIso } from "../../core/iso-time.ts";
import type { FoundCall } from "../../engine/stored/pending-calls.ts";
import { toKeyText } from "../../engine/stored/stored-conversation.ts";
import { Reply } from "../../http/envelope.ts";
import { Prefer, wholeNumber } from "../../http/input.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import type { Agents } from "../agents.ts";
import { fromCursor, toNextCursor } from "../allowed-page.ts";
import { toTextResult } from "../answers/text-result.ts";
import type { AgentCall } from "../call/question.ts";
import type { CallOrigin } from "../call/history/open-turn.ts";
import { AlreadyDecided, maxOfReason } from "../call/approvals/decisions.ts";
import { mayRead, toAskedUser } from "../conversations/access.ts";
import { UserQuery } from "../conversations/shapes.ts";
import type { AgentsOfSnapshot } from "../find-agent.ts";
import { BegunShape, TextShape } from "../shapes.ts";
import { findApproval, listApprovals, toApprover, type FoundApproval } from "./access.ts";

const ApprovalShape = v.pipe(
  v.object({
    approvalId: v.string(),
    agentId: v.string(),
    conversationId: v.string(),
    userId: v.nullable(v.string()),
    toolName: v.string(),
    input: v.unknown(),
    via: v.optional(v.array(v.string())),
    requestedAt: v.string(),
    mayReadConversation: v.boolean(),
  }),
  v.title("Approval"),
);
const DecidedShape = v.pipe(
  v.object({
    approvalId: v.string(),
    conversationId: v.string(),
    messageId: v.string(),
    approved: v.boolean(),
    reason: v.optional(v.string()),
    status: v.picklist(["running", "idle"]),
  }),
  v.title("DecidedApproval"),
);
type DecidedApproval = v.InferOutput<typeof DecidedShape>;
const reason = v.optional(v.pipe(v.string(), v.maxLength(maxOfReason, `expected at most ${maxOfReason} characters`)));

export function approvalRoutes(agents: Agents): readonly Route<AgentsOfSnapshot>[] {
  const { conversations } = agents;

  /** Returns the approvals of a page. `authorize` is asked once about each conversation. */
  async function toViews(calls: readonly FoundCall[], request: Omit<ActionRequest, "action">) {
    const readable = new Map<string, Promise<boolean>>();
    const mayReadOf = ({ key }: FoundCall): Promise<boolean> => {
      const text = toKeyText(key);
      const known = readable.get(text) ?? mayRead(conversations, request, key);
      readable.set(text, known);
      return known;
    };
    return Promise.all(calls.map(async (call) => ({ ...toView(call), mayReadConversation: await mayReadOf(call) })));
  }

  /** Returns the state of a decided approval. Throws if the new decision differs. */
  async function toDecided({ id, key, messageId }: FoundCall, decided: AlreadyDecided): Promise<DecidedApproval> {
    if (!decided.isSame) throw decided;
    const { outcome } = decided;
    const turn = await agents.turns.findAnywhere(key);
    return {
      approvalId: id,
      conversationId: key.conversationId,
      messageId,
      approved: outcome.approved,
      ...(outcome.reason !== undefined && { reason: outcome.reason }),
      status: turn?.answerId === messageId ? "running" : "idle",
    };
  }

  return [
    defineRoute({
      method: "GET",
      path: "/approvals",
      summary: "List the tool calls that wait for approval by the caller, oldest first",
      description:
        "The list has the caller's own conversations, and others that `authorize` allows. `mayReadConversation` is true if the caller may read the conversation of the call. `cursor` is the `nextCursor` of the page before.",
      access: "protected",
      action: "approval.decide",
      yields: true,
      query: v.object({
        ...UserQuery.entries,
        limit: v.optional(wholeNumber(1, 200, "expected 1 to 200")),
        cursor: v.optional(v.string()),
      }),
      responses: { 200: v.object({ items: v.array(ApprovalShape), nextCursor: v.nullable(v.string()) }) },
      errors: { 403: "The caller names another user", 503: "Storage cannot be read" },
      async handle({ query, identity, snapshot }) {
        const { limit = 50, cursor } = query;
        const { userId, isOther } = toAskedUser(query, identity);
        if (isOther) throw forbidden(); // `authorize` decides about the approvals of all users
        const filter = { limit, after: fromCursor(cursor), userId };
        const page = await listApprovals(conversations, { identity, snapshot }, filter);
        return { items: await toViews(page.rows, { identity, snapshot }), nextCursor: toNextCursor(page.next) };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/approvals/:approvalId",
      summary: "Approve or deny a tool call",
      description:
        "The answer continues when all of its approvals are decided, and the response has the form of `text`. Until then `finishReason` is `approval`, and `approvals` has the others. With `Prefer: respond-async`, the response is a 202 as soon as the decision is stored. The same decision again changes nothing and returns the decision: its `status` is `running` while the answer continues.",
      headers: { Prefer },
      access: "protected",
      action: "approval.decide",
      yields: true,
      query: UserQuery,
      body: v.pipe(v.object({ approved: v.boolean(), reason }), v.title("ApprovalDecision")),
      responses: { 200: v.union([TextShape, DecidedShape]), 202: BegunShape },
      errors: {
        404: "Approval not found",
        409: "Decided otherwise, or the turn was stopped, or its conversation was deleted",
        429: "The rate limit of the model is reached, or that of the server",
        499: "The client closed the request",
        502: "The model call failed, or the model rejected the credentials",
        503: "The server is shutting down, too many calls are in flight or queued, or storage cannot be written",
        504: "The model call timed out",
        507: "Storage is full",
        default: "A hook of the agent rejected the call",
      },
      find: (request) => findApproval(conversations, request),
      async handle({ found: { call, agent }, body, query, headers, identity, request, reservation }) {
        if (call.outcome) return toDecided(call, new AlreadyDecided(call, call.outcome, body.approved));
        const by = toApprover(identity, applyIdentity(query, identity).userId);
        const decided: AgentCall = {
          ...toCall({ call, agent }),
          question: { input: [], decisions: [{ id: call.id, ...body, by }] },
          reservation,
          signal: request.signal,
        };
        try {
          if (!headers.Prefer) return toTextResult(await agents.generate(decided));
          const { conversationId } = call.key;
          const turn = await agents.beginTurn(decided);
          // Other decisions are missing: nothing runs.
          if (turn.waiting) return toTextResult(turn.waiting.answer);
          return new Reply({ conversationId, messageId: turn.answerId, status: "running" }, { status: 202 });
        } catch (error) {
          if (error instanceof AlreadyDecided) return toDecided(call, error); // at the same time
          throw error;
        }
      },
    }),
  ];
}

/** Returns the call that continues the answer, for the user of the conversation. Another user may decide. */
function toCall({ call: { key, origin }, agent }: FoundApproval) {
  // Stored by the turn of the approval request.
  const { user, context, options } = JSON.parse(origin ?? '{"context":{},"options":{}}') as CallOrigin;
  const { userId: owner, conversationId } = key;
  const { definition, program } = agent;
  return { agent: definition, program, options, callContext: { userId: owner, user, conversationId, context } };
}

const toView = ({ id, key, toolName, input, via, at }: FoundCall) => ({
  approvalId: id,
  agentId: key.agentId,
  conversationId: key.conversationId,
  userId: key.userId ?? null,
  toolName,
  input: JSON.parse(input) as unknown,
  ...(via && { via: [...via] }),
  requestedAt: toIso(at),
});
