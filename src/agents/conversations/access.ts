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
  ConversationPage,
  StoredConversation,
} from "../../engine/stored/stored-conversation.ts";

/** The user whose conversations a request is about. */
export interface AskedUser {
  readonly userId: string | undefined;
  /** True if it is not the caller. Never true without a provider: a request then names its own user. */
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
/** A request about a conversation. */
export interface ConversationAccess extends ActionRequest {
  /** The action that is asked about a conversation of another user. */
  readonly others?: Action | undefined;
  readonly isOther: boolean;
}

/**
 * Returns a conversation. Rejects with 403 if `authorize` refuses the action, and with 404 if there is none. Of another user,
 * only a caller who may list them gets the 404.
 */
export async function findConversation(
  conversations: Conversations,
  request: ConversationAccess,
  key: ConversationKey,
): Promise<StoredConversation> {
  const found = await conversations.find(key);
  if (request.isOther) {
    const isAllowed = found ? await mayReach(request, key, found) : await mayList(request, key);
    if (!isAllowed) throw forbidden();
  }
  if (!found) throw missingConversation(key);
  if (request.isOther || (await ask(request, request.action, key, found)) !== false) return found;
  // A caller without an id owns nothing.
  const isKnown =
    request.identity.caller?.userId !== undefined ||
    (request.action !== "conversation.read" && (await ask(request, "conversation.read", key, found)) === true);
  throw isKnown ? forbidden() : missingConversation(key);
}

export const missingConversation = ({ conversationId }: ConversationKey): ServeError =>
  notFound(`Conversation ${cut(conversationId)} not found`);

/** Decides about a conversation of another user. Without `authorize`, and for an anonymous caller, the answer is no. */
async function mayReach(
  request: ConversationAccess,
  key: ConversationKey,
  conversation: StoredConversation,
): Promise<boolean> {
  const { others, identity } = request;
  if (!identity.caller || !others) return false;
  return (await ask(request, others, key, conversation)) === true;
}

/** Decides whether the caller may read a conversation, by whichever action is asked about it. */
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
  if (isOther) return mayReach({ ...request, action: "conversation.read", others, isOther }, key, found);
  return (await ask(request, "conversation.read", key, found)) !== false;
}

/** Decides about the list of the conversations of another user, by the same rule. */
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
 * Decides whether the caller may see the prompts of a conversation that it may read. They have the instructions of the agent,
 * so its user alone may not: `authorize` allows `execution.inspect`, or there is none and the server is in `dev`.
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

/** Max conversations that `authorize` is asked about for one page, and at the same time. */
const maxAsked = 1_000;
const atOnce = 200;

/**
 * Reads a page of conversations that the caller may read. `authorize` is asked about each of them, and refused ones are skipped:
 * a page may be shorter than its limit and have a next one. Rejects with 403 if the caller may not list those of another user.
 */
export async function listConversations(
  conversations: Conversations,
  { isOther, ...request }: AccessRequest & Pick<AskedUser, "isOther">,
  filter: ConversationFilter,
): Promise<ConversationPage & { readonly next: string | undefined }> {
  const { limit } = filter;
  if (isOther && !(await mayList(request, filter))) throw forbidden();
  const action = isOther ? "conversation.others.read" : "conversation.read";
  const allowed: StoredConversation[] = [];
  let { after } = filter;
  for (let asked = 0; ;) {
    const size = request.snapshot.authorizer && asked > 0 ? Math.min(atOnce, maxAsked - asked) : limit;
    const page = await conversations.list({ ...filter, after, limit: size });
    const isAllowed = await Promise.all(page.conversations.map((one) => ask(request, action, filter, one) ?? !isOther));
    for (const [index, one] of page.conversations.entries()) {
      if (allowed.length === limit) return { conversations: allowed, hasMore: true, next: after };
      after = one.cursor;
      if (isAllowed[index]) allowed.push(one);
    }
    asked += page.conversations.length;
    const { hasMore } = page;
    if (!hasMore || allowed.length === limit || asked >= maxAsked)
      return { conversations: allowed, hasMore, next: hasMore ? after : undefined };
  }
}
