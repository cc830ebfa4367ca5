import type { ModelMessage, UIMessage } from "ai";
import { badRequest, type ServeError } from "../core/error.ts";
import type { Sdk } from "./sdk.ts";

/** A message for the model, and the id under which the client knows it. */
export interface Message {
  readonly id?: string | undefined;
  readonly message: ModelMessage;
}
/** One message of a client: several for the model when it tells of tools. */
export type ClientMessage = readonly Message[];

/** What a client may send: text, UI messages (`parts`) and model messages (`content`). */
export type Input = string | readonly unknown[];

export async function toMessages(sdk: Sdk, input: Input): Promise<ClientMessage[]> {
  if (typeof input === "string") return [[{ message: { role: "user", content: input } }]];
  if (input.length === 0) throw invalid("input", "expected at least one message");
  const messages = await Promise.all(input.map((message, index) => toMessage(sdk, message, `input.${index}`)));
  // Earlier ones may be: an answer that broke off, or a call that nobody answered.
  if (messages.at(-1)!.length === 0) throw invalid(`input.${input.length - 1}`, "the message is empty");
  return messages;
}

async function toMessage(sdk: Sdk, message: unknown, where: string): Promise<ClientMessage> {
  if (typeof message !== "object" || message === null) throw invalid(where, "expected a message");
  const { id, role, parts, content } = message as Record<string, unknown>;
  if (role === "system") throw invalid(`${where}.role`, "system messages are not accepted");
  if (!["user", "assistant", "tool"].includes(role as string)) {
    throw invalid(`${where}.role`, "expected user, assistant or tool");
  }
  if (id !== undefined && (typeof id !== "string" || id.length > maxId)) throw invalid(`${where}.id`, "expected an id");
  if (Array.isArray(parts)) return fromUiMessage(sdk, message as UIMessage, where);
  // The usual case needs no schema.
  if (typeof content === "string" && (role === "user" || role === "assistant")) {
    return [{ id, message: { role, content } }];
  }
  const parsed = sdk.modelMessageSchema.safeParse(message);
  if (!parsed.success) throw invalid(where, "expected a UI message (parts) or a model message (content)");
  return [{ id, message: parsed.data }];
}

async function fromUiMessage(sdk: Sdk, message: UIMessage, where: string): Promise<ClientMessage> {
  const id = message.id || undefined;
  const checked = await sdk.safeValidateUIMessages({ messages: [{ ...message, id: id ?? "-" }] });
  if (!checked.success) throw invalid(where, "expected a UI message (parts) or a model message (content)");
  const converted = await sdk.convertToModelMessages(checked.data, { ignoreIncompleteToolCalls: true });
  return converted.map((one) => ({ id, message: one }));
}

const maxId = 256;
export const invalid = (where: string, why: string): ServeError => badRequest(`Invalid request body: ${where}: ${why}`);

type Part = { type: string; toolName?: string; toolCallId?: string; approvalId?: string; providerExecuted?: boolean };
/** The parts of a message; text is one that says nothing of tools. */
export const partsOf = ({ content }: ModelMessage): readonly Part[] =>
  typeof content === "string" ? [] : (content as readonly Part[]);

/** What tools were called in these messages and not answered, by the id of the call. */
export interface OpenCalls {
  readonly calls: Map<string, string>;
  /** The calls that wait for an approval, by the id of that. */
  readonly approvals: Map<string, string>;
}

export function openCalls(messages: readonly ModelMessage[]): OpenCalls {
  const calls = new Map<string, string>();
  const approvals = new Map<string, string>();
  for (const part of messages.flatMap(partsOf)) {
    if (part.type === "tool-call" && !part.providerExecuted) calls.set(part.toolCallId!, part.toolName!);
    if (part.type === "tool-approval-request") approvals.set(part.approvalId!, part.toolCallId!);
    if (part.type === "tool-result") calls.delete(part.toolCallId!);
  }
  for (const [id, call] of approvals) if (!calls.has(call)) approvals.delete(id);
  return { calls, approvals };
}

/** Without the calls that nobody will answer any more: no model takes them. */
export function withoutOpenCalls(messages: readonly ModelMessage[]): ModelMessage[] {
  const { calls, approvals } = openCalls(messages);
  if (calls.size === 0) return [...messages];
  const responses = messages.flatMap(partsOf).filter(({ type }) => type === "tool-approval-response");
  // One that was just approved is about to run.
  for (const { approvalId } of responses) calls.delete(approvals.get(approvalId!) ?? "");
  const isOpen = ({ type, toolCallId }: Part): boolean =>
    (type === "tool-call" || type === "tool-approval-request") && calls.has(toolCallId!);
  return messages.flatMap((message) => {
    if (!partsOf(message).some(isOpen)) return [message];
    const content = partsOf(message).filter((part) => !isOpen(part));
    return content.length > 0 ? [{ ...message, content } as ModelMessage] : [];
  });
}
