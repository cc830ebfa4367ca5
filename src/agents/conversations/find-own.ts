import * as v from "valibot";
import type { ActionRequest } from "../../core/authorizer.ts";
import type { ConversationKey, Conversations } from "../../engine/conversations.ts";
import type { StoredConversation } from "../../engine/stored-conversation.ts";
import { OptionalId } from "../../http/given-id.ts";
import { findAgent, type AgentsOfSnapshot } from "../find-agent.ts";
import { findConversation, toUserId } from "./access.ts";

/** The query of a request about the conversations of a user. */
export const UserQuery: v.ObjectSchema<{ readonly userId: v.GenericSchema<string | undefined> }, undefined> = v.object({
  userId: v.pipe(OptionalId, v.description("The user, if there is no authentication provider.")),
});

export interface OwnConversation {
  readonly key: ConversationKey;
  readonly conversation: StoredConversation;
}
export type OwnRequest = ActionRequest & {
  readonly params: { readonly id: string; readonly conversationId: string };
  readonly query: { readonly userId?: string | undefined };
  readonly snapshot: AgentsOfSnapshot;
};

/** Finds a conversation of the caller. Rejects with 404 or 403 if the caller may not do the action of the request. */
export async function findOwn(conversations: Conversations, request: OwnRequest): Promise<OwnConversation> {
  const { params, query, identity, snapshot } = request;
  const agentId = findAgent(snapshot, params.id).definition.id;
  const key = { agentId, userId: toUserId(query, identity), conversationId: params.conversationId };
  return { key, conversation: await findConversation(conversations, request, key) };
}
