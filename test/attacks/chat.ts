import type { Answer, Caller, World } from "./world.ts";

export const base = "/agents/desk/conversations";

/** A message as `useChat` sends it. */
export const message = (id: string, text: string, role = "user") => ({ id, role, parts: [{ type: "text", text }] });

/** Sends messages to the agent, in a conversation. */
export const chat = (
  world: World,
  caller: Caller,
  id: string,
  messages: readonly object[],
  more: object = {},
): Promise<Answer> => world.post(caller, "/agents/desk/chat", { id, messages, ...more });
