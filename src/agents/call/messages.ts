import { setImmediate as nextTurn } from "node:timers/promises";
import type { ModelMessage, UIMessage } from "ai";
import { toErrorMessage } from "../../core/error.ts";
import { toObject } from "../../core/json.ts";
import { maxMessages } from "../../engine/conversations.ts";
import type { Sdk } from "../sdk.ts";
import { checkFiles, invalid, withUrls } from "./files.ts";

/** A message for the model, with the id that the client uses for it. */
export interface PromptMessage {
  readonly id?: string | undefined;
  readonly message: ModelMessage;
}
/** One message of a client. It becomes several model messages if it contains tool calls and their results. */
export type ClientMessage = readonly PromptMessage[];

/** The input of a client: text, UI messages (`parts`) or model messages (`content`). */
export type AgentInput = string | readonly unknown[];

export interface MessagesOptions {
  /** True if the messages come from the author's code. They may refer to files at the provider. @default false */
  readonly trusted?: boolean | undefined;
  /** The field of the body that has the messages, for errors. @default "input" */
  readonly field?: string | undefined;
}

/** Validates and converts the last `maxMessages` messages of the input. */
export async function toMessages(
  sdk: Sdk,
  input: AgentInput,
  { trusted = false, field = "input" }: MessagesOptions = {},
): Promise<ClientMessage[]> {
  if (typeof input === "string") return [[{ message: { role: "user", content: input } }]];
  if (input.length === 0) throw invalid(field, "expected at least one message");
  const first = Math.max(input.length - maxMessages, 0);
  const messages: ClientMessage[] = [];
  let parts = 0;
  for (const [index, message] of input.slice(first).entries()) {
    const where = `${field}.${first + index}`;
    const count = countParts(message);
    if (count > maxParts || (parts += count) > maxParts * 5) throw invalid(where, `more than ${maxParts} parts`);
    // Validation blocks the event loop, so other requests get a turn in between.
    if (parts > 100) await nextTurn();
    messages.push(await toMessage(sdk, message, where, trusted));
  }
  // Earlier messages may be empty: an interrupted answer, or a tool call without a result.
  if (messages.at(-1)!.length === 0) throw invalid(`${field}.${input.length - 1}`, "the message is empty");
  return messages;
}

const maxParts = 1_000;
function countParts(message: unknown): number {
  const { parts, content } = (message ?? {}) as { parts?: unknown; content?: unknown };
  return [parts, content].flatMap((list) => (Array.isArray(list) ? list : [])).length + 1;
}

async function toMessage(sdk: Sdk, message: unknown, where: string, trusted: boolean): Promise<ClientMessage> {
  if (typeof message !== "object" || message === null) throw invalid(where, "expected a message");
  const { id, role, parts, content } = message as Record<string, unknown>;
  if (role === "system") throw invalid(`${where}.role`, "system messages are not accepted");
  if (!["user", "assistant", "tool"].includes(role as string)) {
    throw invalid(`${where}.role`, "expected user, assistant or tool");
  }
  if (id !== undefined && (typeof id !== "string" || id.length > maxId)) throw invalid(`${where}.id`, "expected an id");
  if (Array.isArray(parts)) return fromUiMessage(sdk, message as UIMessage, where, trusted);
  // The most common case skips the schema.
  if (typeof content === "string" && (role === "user" || role === "assistant")) {
    return [{ id, message: { role, content } }];
  }
  const parsed = sdk.modelMessageSchema.safeParse(message);
  if (!parsed.success) {
    const isValid = async (part: unknown): Promise<boolean> =>
      sdk.modelMessageSchema.safeParse({ role, content: [part] }).success;
    await refuseWrongPart(content, `${where}.content`, isValid);
    throw invalid(where, "expected a UI message (parts) or a model message (content)");
  }
  checkFiles(parsed.data.content, `${where}.content`, trusted);
  return [{ id, message: withUrls(parsed.data) }];
}

async function fromUiMessage(sdk: Sdk, message: UIMessage, where: string, trusted: boolean): Promise<ClientMessage> {
  const { role, parts } = message;
  if ((role as string) === "tool")
    throw invalid(`${where}.role`, "expected user or assistant for a message with parts");
  const id = message.id || undefined;
  const checked = await sdk.safeValidateUIMessages({ messages: [{ ...message, id: id ?? "-" }] });
  if (!checked.success) {
    const isValid = async (part: unknown): Promise<boolean> =>
      (await sdk.safeValidateUIMessages({ messages: [{ id: "-", role, parts: [part] }] })).success;
    await refuseWrongPart(parts, `${where}.parts`, isValid);
    throw invalid(where, "expected a UI message (parts) or a model message (content)");
  }
  checkFiles(parts, `${where}.parts`, trusted);
  const converted = await sdk
    .convertToModelMessages(checked.data, { ignoreIncompleteToolCalls: true })
    .catch((error: unknown) => {
      throw invalid(where, toErrorMessage(error).slice(0, 200));
    });
  return converted.map((one) => ({ id, message: one }));
}

/** Finds the part for which a message was rejected. The error of the schema lists every kind of part instead. */
async function refuseWrongPart(
  parts: unknown,
  where: string,
  isValid: (part: unknown) => Promise<boolean>,
): Promise<void> {
  for (const [index, part] of Array.isArray(parts) ? parts.entries() : []) {
    if (await isValid(part)) continue;
    const { type } = toObject(part);
    const kind = typeof type === "string" ? `a valid part of type ${JSON.stringify(type.slice(0, 50))}` : "a part";
    throw invalid(`${where}.${index}`, `not ${kind}`);
  }
}

const maxId = 256;

interface MessagePart {
  readonly type: string;
  readonly toolName?: string;
  readonly toolCallId?: string;
  readonly approvalId?: string;
  readonly providerExecuted?: boolean;
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
