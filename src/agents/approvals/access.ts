import type { AuthorizeRequest } from "../../core/access/authorize.ts";
import { forbidden, type ActionRequest } from "../../core/access/authorizer.ts";
import { type Identity, applyIdentity } from "../../core/caller.ts";
import { cut } from "../../core/cut.ts";
import { notFound } from "../../core/error.ts";
import { toIso } from "../../core/iso-time.ts";
import type { ConversationKey, Conversations } from "../../engine/contract/conversations.ts";
import type { Approver, CallFilter, FoundCall } from "../../engine/stored/pending-calls.ts";
import { readAllowed, type AllowedPage } from "../allowed-page.ts";
import type { AskedApproval } from "../call/approvals/pending-calls.ts";
import type { Decider } from "../call/history/turn-parts.ts";
import type { AgentsOfSnapshot, RegisteredAgent } from "../find-agent.ts";

/** A request without its action: the caller and the agents. */
interface AccessRequest extends Omit<ActionRequest, "action"> {
  readonly snapshot: AgentsOfSnapshot;
}
interface ApprovalRequest extends AccessRequest {
  readonly params: { readonly approvalId: string };
  readonly query: { readonly userId?: string | undefined };
}
/** An approval that the caller may decide. */
export interface FoundApproval {
  readonly call: FoundCall;
  readonly agent: RegisteredAgent;
}

/**
 * Returns an approval that the caller may decide, also if it is decided. Rejects with 404 if there is none, and with 403 if
 * `authorize` refuses the user of its conversation.
 */
export async function findApproval(conversations: Conversations, request: ApprovalRequest): Promise<FoundApproval> {
  const { approvalId } = request.params;
  const { userId } = applyIdentity(request.query, request.identity);
  const missing = (): Error => notFound(`Approval ${cut(approvalId)} not found`);
  const call = await conversations.findCall(approvalId);
  const agent = call && request.snapshot.agents.get(call.key.agentId);
  if (!call || !agent || call.type !== "approval") throw missing();
  // Once a call is decided, only its message has the input.
  const input: unknown = call.outcome ? undefined : JSON.parse(call.input);
  if (!(await mayDecide(request, { ...call, input }, call.key, userId))) {
    throw call.key.userId === userId && userId !== undefined ? forbidden() : missing();
  }
  return { call, agent };
}

/** Returns the decider of the approvals in a caller's messages. The conversation belongs to the caller. */
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

/** Returns the deciding user, as tools get it. */
export const toApprover = ({ caller }: Identity, userId: string | undefined): Approver =>
  caller?.user ?? (userId === undefined ? {} : { id: userId });

/** Returns the answer of `authorize`. Without an answer, the user of the conversation may decide. */
async function mayDecide(
  { identity, snapshot: { authorizer } }: AccessRequest,
  { id, toolName, input, via, at }: Omit<AskedApproval, "toolCallId"> & { readonly at: number },
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

/** Reads a page of approvals that the caller may decide, oldest first. */
export async function listApprovals(
  conversations: Conversations,
  request: AccessRequest,
  { limit, after, userId }: Pick<CallFilter, "limit" | "after"> & { readonly userId: string | undefined },
): Promise<AllowedPage<FoundCall>> {
  const { authorizer, agents } = request.snapshot;
  const owner = authorizer ? undefined : { userId };
  return readAllowed({
    limit,
    after,
    hasAuthorize: authorizer !== undefined,
    async read(from, size) {
      const { calls: rows, hasMore } = await conversations.listCalls({ owner, after: from, limit: size });
      return { rows, hasMore };
    },
    isAllowed: (call) =>
      agents.has(call.key.agentId) &&
      mayDecide(request, { ...call, input: JSON.parse(call.input) as unknown }, call.key, userId),
  });
}
