import type { AuthorizeRequest } from "../../core/authorize.ts";
import { forbidden, type ActionRequest } from "../../core/authorizer.ts";
import { applyIdentity, type Identity } from "../../core/caller.ts";
import { cut } from "../../core/cut.ts";
import { notFound } from "../../core/error.ts";
import { toIso } from "../../core/iso-time.ts";
import type { ConversationKey, Conversations } from "../../engine/conversations.ts";
import type {
  ConversationFilter,
  ConversationOwner,
  ConversationPage,
  StoredConversation,
} from "../../engine/stored-conversation.ts";

/** Returns the user whose conversations a request is about. */
export const toUserId = (
  { userId }: { readonly userId?: string | undefined },
  identity: Identity,
): string | undefined => applyIdentity({ userId }, identity).userId;

type AccessRequest = Omit<ActionRequest, "action">;

/** Returns a conversation of the caller. Rejects with 404 if there is none, and with 403 if `authorize` refuses the action. */
export async function findConversation(
  conversations: Conversations,
  request: ActionRequest,
  key: ConversationKey,
): Promise<StoredConversation> {
  const missing = (): Error => notFound(`Conversation ${cut(key.conversationId)} not found`);
  const found = await conversations.find(key);
  if (!found) throw missing();
  if ((await ask(request, request.action, key, found)) !== false) return found;
  // A caller without an id owns nothing.
  const isKnown =
    request.identity.caller?.userId !== undefined ||
    (request.action !== "conversation.read" && (await ask(request, "conversation.read", key, found)) === true);
  throw isKnown ? forbidden() : missing();
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
  action: AuthorizeRequest["action"],
  { agentId, userId }: ConversationOwner,
  { id, title, createdAt, updatedAt }: StoredConversation,
): boolean | Promise<boolean> | undefined {
  const times = { createdAt: createdAt === null ? null : toIso(createdAt), updatedAt: toIso(updatedAt) };
  const conversation = Object.freeze({ conversationId: id, agentId, userId, title, ...times });
  return authorizer?.ask({ action, user: identity.caller?.user, agentId, conversation });
}

/** The most conversations that `authorize` is asked about for one page, and at the same time. */
const mostAsked = 1_000;
const atOnce = 200;

/**
 * Reads a page of conversations that the caller may read. `authorize` is asked about each of them, and refused ones are skipped:
 * a page may be shorter than its limit and have a next one.
 */
export async function listConversations(
  conversations: Conversations,
  request: AccessRequest,
  filter: ConversationFilter,
): Promise<ConversationPage & { readonly next: string | undefined }> {
  const { limit } = filter;
  const allowed: StoredConversation[] = [];
  let { after } = filter;
  for (let asked = 0; ;) {
    const size = request.snapshot.authorizer && asked > 0 ? Math.min(atOnce, mostAsked - asked) : limit;
    const page = await conversations.list({ ...filter, after, limit: size });
    const isAllowed = await Promise.all(
      page.conversations.map((one) => ask(request, "conversation.read", filter, one) ?? true),
    );
    for (const [index, one] of page.conversations.entries()) {
      if (allowed.length === limit) return { conversations: allowed, hasMore: true, next: after };
      after = one.cursor;
      if (isAllowed[index]) allowed.push(one);
    }
    asked += page.conversations.length;
    const { hasMore } = page;
    if (!hasMore || allowed.length === limit || asked >= mostAsked)
      return { conversations: allowed, hasMore, next: hasMore ? after : undefined };
  }
}
