import type { Action } from "../../core/access/authorize.ts";
import { forbidden, type ActionRequest } from "../../core/access/authorizer.ts";
import { applyIdentity, type Identity } from "../../core/caller.ts";
import { cut } from "../../core/cut.ts";
import { notFound, type ServeError } from "../../core/error.ts";
import { toIso } from "../../core/iso-time.ts";
import type { ConversationKey, Conversations } from "../../engine/contract/conversations.ts";
import type {
  ConversationFilter,
  ConversationOwner,
  StoredConversation,
} from "../../engine/stored/stored-conversation.ts";
import { readAllowed, type AllowedPage } from "../allowed-page.ts";
import { findAgent, type AgentsOfSnapshot } from "../find-agent.ts";

/** The user of the conversations in a request. */
export interface AskedUser {
  readonly userId: string | undefined;
  /** True if it is not the caller. Without a provider, never: a request then names its own user. */
  readonly isOther: boolean;
}
export function toAskedUser(query: { readonly userId?: string | undefined }, identity: Identity): AskedUser {
  const { userId } = applyIdentity(query, identity);
  const isOther = identity.checked && query.userId !== undefined && query.userId !== userId;
  return { userId: isOther ? query.userId : userId, isOther };
}

/** Returns true for conversations of the caller. An anonymous caller, or a user without an id, owns none. */
export const ownsAsked = ({ userId, isOther }: AskedUser, { checked }: Identity): boolean =>
  !isOther && (!checked || userId !== undefined);

type AccessRequest = Omit<ActionRequest, "action">;
export interface ConversationRequest extends ActionRequest {
  /** The action that is asked about a conversation of another user. */
  readonly others?: Action | undefined;
  readonly params: { readonly id: string; readonly conversationId: string };
  readonly query: { readonly userId?: string | undefined };
  readonly snapshot: AgentsOfSnapshot;
}
/** The conversation of a request. */
export interface AskedConversation {
  readonly key: ConversationKey;
  readonly conversation: StoredConversation;
  /** True if it belongs to the caller. */
  readonly isOwn: boolean;
}

/**
 * Finds the conversation of a request. Rejects with 403 if `authorize` refuses the action, and with 404 if there is none. For
 * conversations of another user, only a caller who may list them gets the 404.
 */
export async function findAsked(
  conversations: Conversations,
  request: ConversationRequest,
): Promise<AskedConversation> {
  const { params, query, identity, snapshot, action } = request;
  const agentId = findAgent(snapshot, params.id).definition.id;
  const user = toAskedUser(query, identity);
  const key = { agentId, userId: user.userId, conversationId: params.conversationId };
  const conversation = await conversations.find(key);
  if (user.isOther && !(await (conversation ? mayReach(request, key, conversation) : mayList(request, key))))
    throw forbidden();
  if (!conversation) throw missingConversation(key);
  if (!user.isOther && (await ask(request, action, key, conversation)) === false) {
    // A caller without an id owns nothing.
    const isKnown =
      identity.caller?.userId !== undefined ||
      (action !== "conversation.read" && (await ask(request, "conversation.read", key, conversation)) === true);
    throw isKnown ? forbidden() : missingConversation(key);
  }
  return { key, conversation, isOwn: ownsAsked(user, identity) };
}

export const missingConversation = ({ conversationId }: ConversationKey): ServeError =>
  notFound(`Conversation ${cut(conversationId)} not found`);

/** Asks `authorize` about a conversation of another user. Without it, and for an anonymous caller, the result is false. */
async function mayReach(
  request: AccessRequest & Pick<ConversationRequest, "others">,
  key: ConversationKey,
  conversation: StoredConversation,
): Promise<boolean> {
  const { others, identity } = request;
  if (!identity.caller || !others) return false;
  return (await ask(request, others, key, conversation)) === true;
}

/** Returns true if the caller may read a conversation, which may belong to another user. */
export async function mayRead(
  conversations: Conversations,
  request: AccessRequest,
  key: ConversationKey,
): Promise<boolean> {
  const { checked, caller } = request.identity;
  const isOther = checked && key.userId !== caller?.userId;
  if (isOther && key.userId === undefined) return false; // no request can name an anonymous user
  const found = await conversations.find(key);
  if (!found) return false;
  const others = "conversation.others.read";
  if (isOther) return mayReach({ ...request, others }, key, found);
  return (await ask(request, "conversation.read", key, found)) !== false;
}

/** Asks `authorize` about the conversation list of another user, by the same rule. */
async function mayList(
  { identity, snapshot: { authorizer } }: AccessRequest,
  { agentId, userId = "" }: ConversationOwner,
): Promise<boolean> {
  if (!identity.caller) return false;
  const conversations = Object.freeze({ userId, isOwn: false });
  const action = "conversation.others.list";
  return (await authorizer?.ask({ action, user: identity.caller.user, agentId, conversations })) === true;
}

/**
 * Returns true if the reader of a conversation may see its prompts. They have the agent's instructions, so ownership is not
 * enough: `authorize` must allow `execution.inspect`, or there is none and the server is in `dev`.
 */
export async function mayInspect(
  request: AccessRequest,
  key: ConversationKey,
  conversation: StoredConversation,
  isDev: boolean,
): Promise<boolean> {
  const { checked, caller } = request.identity;
  return (await ask(request, "execution.inspect", key, conversation)) ?? (isDev && (!checked || caller !== undefined));
}

function ask(
  { identity, snapshot: { authorizer } }: AccessRequest,
  action: Action,
  { agentId, userId }: ConversationOwner,
  { id, title, createdAt, updatedAt }: StoredConversation,
): boolean | Promise<boolean> | undefined {
  const times = { createdAt: createdAt === null ? null : toIso(createdAt), updatedAt: toIso(updatedAt) };
  const isOwn = userId !== undefined && userId === identity.caller?.userId;
  const conversation = Object.freeze({ conversationId: id, agentId, userId, isOwn, title, ...times });
  return authorizer?.ask({ action, user: identity.caller?.user, agentId, conversation });
}

/** Reads a page of conversations. Rejects with 403 if the caller may not list the conversations of another user. */
export async function listConversations(
  conversations: Conversations,
  { isOther, ...request }: AccessRequest & Pick<AskedUser, "isOther">,
  filter: ConversationFilter,
): Promise<AllowedPage<StoredConversation>> {
  if (isOther && !(await mayList(request, filter))) throw forbidden();
  const action = isOther ? "conversation.others.read" : "conversation.read";
  return readAllowed({
    ...filter,
    hasAuthorize: request.snapshot.authorizer !== undefined,
    async read(after, limit) {
      const page = await conversations.list({ ...filter, after, limit });
      return { rows: page.conversations, hasMore: page.hasMore };
    },
    isAllowed: (one) => ask(request, action, filter, one) ?? !isOther,
  });
}
