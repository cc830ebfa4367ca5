import type { UIMessage } from "ai";
import { storeSession, toHeaders, type Session } from "./session.ts";

/** A conversation in the list. */
export interface ConversationItem {
  readonly id: string;
  readonly title: string;
  readonly running: boolean;
}

/** A conversation with its messages. While an answer is made, they end before it, and `running` has its id. */
export interface OpenConversation {
  readonly messages: UIMessage[];
  readonly running: { readonly messageId: string } | null;
}

/** A call of a tool that waits for a decision. */
export interface Approval {
  readonly approvalId: string;
  readonly conversationId: string;
  readonly userId: string;
  readonly mayReadConversation: boolean;
  readonly toolName: string;
  readonly input: Record<string, unknown>;
  readonly requestedAt: string;
}

export const agent = "/agents/support";

export const listConversations = async () =>
  (await send<{ items: ConversationItem[] }>("GET", `${agent}/conversations`)).items;
/** The path of a conversation of the signed-in user, or of another one. */
const at = (id: string, rest = "", userId?: string) =>
  `${agent}/conversations/${id}${rest}${userId === undefined ? "" : `?userId=${encodeURIComponent(userId)}`}`;
export const readConversation = (id: string, userId?: string) => send<OpenConversation>("GET", at(id, "", userId));
export const deleteConversation = (id: string) => send("DELETE", at(id));
/** Writes into the conversation of a customer. */
export const addMessage = (id: string, userId: string, text: string) =>
  send("POST", at(id, "/messages", userId), { text });
/** Stops the answer that is being made. To leave the page does not stop it. */
export const stopAnswer = (id: string, userId?: string) =>
  send<{ stopped: boolean }>("POST", at(id, "/stop", userId), {});
export const listApprovals = async () => (await send<{ items: Approval[] }>("GET", "/approvals")).items;
/** Approves or declines a call. The answer of the agent continues, and is not waited for. */
export const decide = (id: string, approved: boolean, reason: string) =>
  send("POST", `/approvals/${id}`, { approved, ...(reason && { reason }) }, { prefer: "respond-async" });

/** An error that the server has answered. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

async function send<T>(method: string, path: string, body?: object, more?: Record<string, string>): Promise<T> {
  const headers = { ...toHeaders(), "content-type": "application/json", ...more };
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  const { data, error } = (await response.json()) as { data: T; error?: string };
  if (response.ok) return data;
  if (response.status === 401) leave();
  throw new ApiError(response.status, error ?? response.statusText);
}

/** Shows the sign-in again: the token has expired, or the server has another secret. */
function leave(): void {
  storeSession(undefined);
  location.reload();
}

/** Signs in as a demo user. With an identity provider, its own sign-in returns the token. */
export async function signIn(userId: string): Promise<Session> {
  const headers = { "content-type": "application/json" };
  const response = await fetch("/sign-in", { method: "POST", headers, body: JSON.stringify({ userId }) });
  const body = (await response.json()) as Session & { error?: string };
  if (!response.ok) throw new ApiError(response.status, body.error ?? response.statusText);
  return body;
}
