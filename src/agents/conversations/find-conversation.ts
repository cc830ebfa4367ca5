import * as v from "valibot";
import type { ActionRequest } from "../../core/access/authorizer.ts";
import type { ConversationKey, Conversations } from "../../engine/contract/conversations.ts";
import type { StoredConversation } from "../../engine/stored/stored-conversation.ts";
import { OptionalId } from "../../http/input.ts";
import { findAgent, type AgentsOfSnapshot } from "../find-agent.ts";
import { findConversation, ownsAsked, toAskedUser, type ConversationAccess } from "./access.ts";

/** The query of a request about the conversations of a user. */
export const UserQuery: v.ObjectSchema<{ readonly userId: v.GenericSchema<string | undefined> }, undefined> = v.object({
  userId: v.pipe(
    OptionalId,
    v.description(
      "The user. With an authentication provider, another user than the caller needs the right by `authorize`.",
    ),
  ),
});

/** The conversation that a request is about. */
export interface AskedConversation {
  readonly key: ConversationKey;
  readonly conversation: StoredConversation;
  /** True if it is one of the caller. */
  readonly isOwn: boolean;
}
export type ConversationRequest = ActionRequest &
  Pick<ConversationAccess, "others"> & {
    readonly params: { readonly id: string; readonly conversationId: string };
    readonly query: { readonly userId?: string | undefined };
    readonly snapshot: AgentsOfSnapshot;
  };

/** Finds the conversation of a request. Rejects with 404 or 403 if the caller may not do the action of the request. */
export async function findAsked(
  conversations: Conversations,
  request: ConversationRequest,
): Promise<AskedConversation> {
  const { params, query, identity, snapshot } = request;
  const agentId = findAgent(snapshot, params.id).definition.id;
  const user = toAskedUser(query, identity);
  const { isOther, userId } = user;
  const key = { agentId, userId, conversationId: params.conversationId };
  const conversation = await findConversation(conversations, { ...request, isOther }, key);
  return { key, conversation, isOwn: ownsAsked(user, identity) };
}
