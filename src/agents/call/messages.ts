import { setImmediate as nextTurn } from "node:timers/promises";
import type { ModelMessage, UIMessage } from "ai";
import { badRequest, type ServeError } from "../../core/error.ts";
import { maxMessages } from "../../engine/conversations.ts";
import type { Sdk } from "../sdk.ts";

/** A message for the model, with the id that the client uses for it. */
export interface PromptMessage {
  readonly id?: string | undefined;
  readonly message: ModelMessage;
}
/** One message of a client. It becomes several model messages if it contains tool calls and their results. */
export type ClientMessage = readonly PromptMessage[];

/** The input of a client: text, UI messages (`parts`) or model messages (`content`). */
export type AgentInput = string | readonly unknown[];

/**
 * Validates and converts the last `maxMessages` messages of the input. Trusted messages come from the author's code and
 * may refer to files at the provider.
 */
export async function toMessages(sdk: Sdk, input: AgentInput, trusted = false): Promise<ClientMessage[]> {
  if (typeof input === "string") return [[{ message: { role: "user", content: input } }]];
  if (input.length === 0) throw invalid("input", "expected at least one message");
  const first = Math.max(input.length - maxMessages, 0);
  const messages: ClientMessage[] = [];
  let parts = 0;
  for (const [index, message] of input.slice(first).entries()) {
    const where = `input.${first + index}`;
    const count = countParts(message);
    if (count > maxParts || (parts += count) > maxParts * 5) throw invalid(where, `more than ${maxParts} parts`);
    // Validation blocks the event loop, so other requests get a turn in between.
    if (parts > 100) await nextTurn();
    messages.push(await toMessage(sdk, message, where));
  }
  // Earlier messages may be empty: an interrupted answer, or a tool call without a result.
  if (messages.at(-1)!.length === 0) throw invalid(`input.${input.length - 1}`, "the message is empty");
  if (!trusted) for (const { message } of messages.flat()) refuseReferences(message);
  return messages;
}

const maxParts = 1_000;
function countParts(message: unknown): number {
  const { parts, content } = (message ?? {}) as { parts?: unknown; content?: unknown };
  return [parts, content].flatMap((list) => (Array.isArray(list) ? list : [])).length + 1;
}

/** Rejects references to files at the provider. They belong to the author's account, and a client must not use them. */
function refuseReferences(message: ModelMessage): void {
  const parts = partsOf(message).flatMap((part) => [part, ...toContent(part)]);
  for (const { type, data, image } of parts) {
    if (type !== "file" && type !== "image" && type !== "reasoning-file") continue;
    const source = data ?? image;
    const isPlain = typeof source === "string" || ["data", "url", "text"].includes((source as { type: string }).type);
    if (!isPlain) throw invalid("input", "expected files as data: URLs, or as URLs that the model's provider fetches");
  }
}

/** Returns the output of a tool if it is a list of texts and files. */
const toContent = ({ output }: MessagePart): readonly MessagePart[] =>
  output?.type === "content" ? (output.value as readonly MessagePart[]) : [];

async function toMessage(sdk: Sdk, message: unknown, where: string): Promise<ClientMessage> {
  if (typeof message !== "object" || message === null) throw invalid(where, "expected a message");
  const { id, role, parts, content } = message as Record<string, unknown>;
  if (role === "system") throw invalid(`${where}.role`, "system messages are not accepted");
  if (!["user", "assistant", "tool"].includes(role as string)) {
    throw invalid(`${where}.role`, "expected user, assistant or tool");
  }
  if (id !== undefined && (typeof id !== "string" || id.length > maxId)) throw invalid(`${where}.id`, "expected an id");
  if (Array.isArray(parts)) return fromUiMessage(sdk, message as UIMessage, where);
  // The most common case skips the schema.
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

interface MessagePart {
  readonly type: string;
  readonly toolName?: string;
  readonly toolCallId?: string;
  readonly approvalId?: string;
  readonly providerExecuted?: boolean;
  readonly data?: unknown;
  readonly image?: unknown;
  readonly output?: { readonly type: string; readonly value?: unknown };
}
/** Returns the parts of a message. Plain text has none, because it cannot refer to tools. */
export const partsOf = ({ content }: ModelMessage): readonly MessagePart[] =>
  typeof content === "string" ? [] : (content as readonly MessagePart[]);

/** The tool calls without a result in a list of messages. */
export interface OpenCalls {
  /** The names of the tools, by the id of the call. */
  readonly calls: Map<string, string>;
  /** The ids of the calls that wait for approval, by the id of the approval. */
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

/** Removes tool calls that will never get a result, and results without a call. Models reject both. */
export function toPrompt(messages: readonly ModelMessage[]): ModelMessage[] {
  const parts = messages.flatMap(partsOf);
  const { calls, approvals } = openCalls(messages);
  const made = new Set(parts.filter(({ type }) => type === "tool-call").map(({ toolCallId }) => toolCallId));
  // A call that was just approved is about to run.
  for (const { type, approvalId } of parts) {
    if (type === "tool-approval-response") calls.delete(approvals.get(approvalId!) ?? "");
  }
  const isLoose = ({ type, toolCallId }: MessagePart): boolean =>
    type === "tool-result"
      ? !made.has(toolCallId)
      : (type === "tool-call" || type === "tool-approval-request") && calls.has(toolCallId!);
  return messages.flatMap((message) => {
    if (!partsOf(message).some(isLoose)) return [message];
    const content = partsOf(message).filter((part) => !isLoose(part));
    return content.length > 0 ? [{ ...message, content } as ModelMessage] : [];
  });
}
