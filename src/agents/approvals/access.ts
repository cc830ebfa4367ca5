import type { AuthorizeRequest } from "../../core/access/authorize.ts";
import { forbidden, type ActionRequest } from "../../core/access/authorizer.ts";
import type { Identity } from "../../core/caller.ts";
import { cut } from "../../core/cut.ts";
import { notFound } from "../../core/error.ts";
import { toIso } from "../../core/iso-time.ts";
import type { ConversationKey, Conversations } from "../../engine/contract/conversations.ts";
import type { Approver, CallFilter, FoundCall } from "../../engine/stored/pending-calls.ts";
import type { AskedApproval } from "../call/pending-calls.ts";
import type { Decider } from "../call/turn-parts.ts";
import type { AgentsOfSnapshot, RegisteredAgent } from "../find-agent.ts";

/** The part of a request that says who asks. */
interface AccessRequest extends Omit<ActionRequest, "action"> {
  readonly snapshot: AgentsOfSnapshot;
}
/** An approval that the caller may decide. */
export interface FoundApproval {
  readonly call: FoundCall;
  readonly agent: RegisteredAgent;
}

/**
 * Returns an approval that the caller may decide, or may have decided. Rejects with 404 if there is none, and with 403 if
 * `authorize` refuses the user of its conversation.
 */
export async function findApproval(
  conversations: Conversations,
  request: AccessRequest,
  { approvalId, userId }: { readonly approvalId: string; readonly userId: string | undefined },
): Promise<FoundApproval> {
  const missing = (): Error => notFound(`Approval ${cut(approvalId)} not found`);
  const call = await conversations.findCall(approvalId);
  const agent = call && request.snapshot.agents.get(call.key.agentId);
  if (!call || !agent || call.type !== "approval") throw missing();
  // The message of a call that was decided has the input.
  const input: unknown = call.outcome ? undefined : JSON.parse(call.input);
  if (!(await mayDecide(request, { ...call, input }, call.key, userId))) {
    throw call.key.userId === userId && userId !== undefined ? forbidden() : missing();
  }
  return { call, agent };
}

/** Returns the decider of the approvals in a caller's messages. The conversation is always one of the caller. */
export function toDecider(
  request: AccessRequest,
  key: Omit<ConversationKey, "conversationId"> & { conversationId?: string | undefined },
): Decider {
  const { conversationId = "", agentId, userId } = key;
  return {
    by: toApprover(request.identity, userId),
    async admit(call) {
      const isAllowed = await mayDecide(request, call, { agentId, userId, conversationId }, userId);
      if (!isAllowed) throw forbidden();
    },
  };
}

/** Returns the user who decides, as tools get it. */
export const toApprover = ({ caller }: Identity, userId: string | undefined): Approver =>
  caller?.user ?? (userId === undefined ? {} : { id: userId });

type AskedCall = AskedApproval & { readonly at: number };

/** Returns the answer of `authorize`. Without one, the user of the conversation may decide. */
async function mayDecide(
  { identity, snapshot: { authorizer } }: AccessRequest,
  { id, toolName, input, via, at }: Pick<AskedCall, "id" | "toolName" | "input" | "via" | "at">,
  { agentId, userId, conversationId }: ConversationKey,
  callerId: string | undefined,
): Promise<boolean> {
  const isOwn = userId === callerId;
  if (!authorizer) return isOwn;
  const approval = Object.freeze({
    approvalId: id,
    agentId,
    conversationId,
    userId,
    isOwn: isOwn && identity.caller?.userId !== undefined,
    toolName,
    input,
    via: via && Object.freeze([...via]),
    requestedAt: toIso(at),
  });
  const asked: AuthorizeRequest = { action: "approval.decide", user: identity.caller?.user, agentId, approval };
  return (await authorizer.ask(asked)) ?? isOwn;
}

/** Max approvals that `authorize` is asked about for one page, and at the same time. */
const maxAsked = 1_000;
const atOnce = 200;

/**
 * Reads a page of approvals that the caller may decide, oldest first. `authorize` is asked about each of them, and refused ones
 * are skipped: a page may be shorter than its limit and have a next one.
 */
export async function listApprovals(
  conversations: Conversations,
  request: AccessRequest,
  { limit, userId, ...filter }: Pick<CallFilter, "limit" | "after"> & { readonly userId: string | undefined },
): Promise<{ readonly calls: readonly FoundCall[]; readonly next: string | undefined }> {
  const { authorizer, agents } = request.snapshot;
  const owner = authorizer ? undefined : { userId };
  const allowed: FoundCall[] = [];
  let { after } = filter;
  for (let asked = 0; ;) {
    const size = authorizer && asked > 0 ? Math.min(atOnce, maxAsked - asked) : limit;
    const page = await conversations.listCalls({ owner, after, limit: size });
    const isAllowed = await Promise.all(
      page.calls.map((call) => agents.has(call.key.agentId) && mayDecide(request, withInput(call), call.key, userId)),
    );
    for (const [index, call] of page.calls.entries()) {
      if (allowed.length === limit) return { calls: allowed, next: after };
      after = call.cursor;
      if (isAllowed[index]) allowed.push(call);
    }
    asked += page.calls.length;
    if (!page.hasMore) return { calls: allowed, next: undefined };
    if (allowed.length === limit || asked >= maxAsked) return { calls: allowed, next: after };
  }
}

const withInput = (call: FoundCall): AskedCall => ({ ...call, input: JSON.parse(call.input) as unknown });
