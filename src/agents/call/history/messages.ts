import { setImmediate as nextTurn } from "node:timers/promises";
import type { ModelMessage, UIMessage } from "ai";
import { toErrorMessage } from "../../../core/error.ts";
import { isObject, toObject } from "../../../core/json.ts";
import { maxMessages } from "../../../engine/contract/conversations.ts";
import { withGranted } from "../../messages/granted.ts";
import { longText } from "../../messages/long-text.ts";
import type { UiParts } from "../../messages/ui-message.ts";
import type { Sdk } from "../../sdk.ts";
import type { InnerCall } from "../../tools/inner-approval.ts";
import { checkFiles, invalid, withUrls } from "./files.ts";
import { MessageBounds } from "./message-bounds.ts";

/** One message of a client. It becomes several model messages if it contains tool calls and their results. */
export interface ClientMessage {
  readonly id?: string | undefined;
  readonly role: "user" | "assistant" | "tool";
  readonly models: readonly ModelMessage[];
  /** The parts, if it was sent as a UI message. */
  readonly parts?: UiParts | undefined;
}

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
  if (typeof input === "string") return [{ role: "user", models: [{ role: "user", content: input }] }];
  if (input.length === 0) throw invalid(field, "expected at least one message");
  const first = Math.max(input.length - maxMessages, 0);
  const messages: ClientMessage[] = [];
  const bounds = new MessageBounds();
  for (const [index, message] of input.slice(first).entries()) {
    const where = `${field}.${first + index}`;
    bounds.add(message, where);
    // Validation blocks the event loop, so other requests get a turn in between.
    if (bounds.parts > 100 || hasLongFile(message)) await nextTurn();
    messages.push(await toMessage(sdk, message, where, trusted));
  }
  // Earlier messages may be empty: an interrupted answer, or a tool call without a result.
  if (messages.at(-1)!.models.length === 0) throw invalid(`${field}.${input.length - 1}`, "the message is empty");
  return messages;
}

/** Returns true if a part has a file that takes milliseconds to check. */
function hasLongFile(message: unknown): boolean {
  const { parts, content } = toObject(message);
  return [parts, content].flat().some((part) => {
    const { url, data, image } = toObject(part);
    return [url, data, image].some((file) => typeof file === "string" && file.length > longText);
  });
}

async function toMessage(sdk: Sdk, message: unknown, where: string, trusted: boolean): Promise<ClientMessage> {
  if (typeof message !== "object" || message === null) throw invalid(where, "expected a message");
  const { id, role, parts, content, providerOptions } = message as Record<string, unknown>;
  if (role === "system") throw invalid(`${where}.role`, "system messages are not accepted");
  if (role !== "user" && role !== "assistant" && role !== "tool") {
    throw invalid(`${where}.role`, "expected user, assistant or tool");
  }
  if (id !== undefined && (typeof id !== "string" || id.length > maxId)) throw invalid(`${where}.id`, "expected an id");
  if (Array.isArray(parts)) return fromUiMessage(sdk, message as UIMessage, where, trusted);
  // The common case skips the schema.
  if (typeof content === "string" && (role === "user" || role === "assistant")) {
    return { id, role, models: [{ role, content }] };
  }
  const checked = await validateParts(content, `${where}.content`, async (some) => {
    const bare = Array.isArray(some) ? some.map(withoutJson) : some;
    const parsed = sdk.modelMessageSchema.safeParse({ role, content: bare, providerOptions });
    if (!parsed.success) return undefined;
    return (parsed.data.content as unknown[]).map((part, index) => withJson(part, (some as unknown[])[index]));
  });
  if (!checked) throw invalid(where, "expected a UI message (parts) or a model message (content)");
  checkFiles(checked, `${where}.content`, trusted);
  // The cast is safe: the schema has checked the role together with each of the parts.
  const known = { role, content: checked, ...(providerOptions !== undefined && { providerOptions }) } as ModelMessage;
  return { id, role, models: [withUrls(known)] };
}

/**
 * Replaces the JSON of a tool result for the schema, which would need seconds for 2 MB of it. The value is JSON, because
 * it comes from the body of a request, or from a step, whose prompt is serialized with its turn.
 */
function withoutJson(part: unknown): unknown {
  return hasJson(part) ? { ...part, output: { ...part.output, value: null } } : part;
}

function withJson(part: unknown, original: unknown): unknown {
  if (!hasJson(part) || !hasJson(original)) return part;
  return { ...part, output: { ...part.output, value: original.output["value"] } };
}

function hasJson(part: unknown): part is { output: Record<string, unknown> } {
  const { type, output } = toObject(part);
  if (type !== "tool-result" || !isObject(output) || !("value" in output)) return false;
  return output["type"] === "json" || output["type"] === "error-json";
}

async function fromUiMessage(sdk: Sdk, message: UIMessage, where: string, trusted: boolean): Promise<ClientMessage> {
  // No spread of the message: it can have any number of other keys.
  const role = message.role as ClientMessage["role"]; // checked by the caller
  if (role === "tool") {
    throw invalid(`${where}.role`, "expected user or assistant for a message with parts");
  }
  const id = message.id || undefined;
  const sent = withGranted(message.parts);
  const parts = await validateParts(sent, `${where}.parts`, async (some) => {
    const checked = await sdk.safeValidateUIMessages({ messages: [{ id: id ?? "-", role, parts: some }] });
    return checked.success ? checked.data[0]!.parts : undefined;
  });
  if (!parts) throw invalid(where, "expected a UI message (parts) or a model message (content)");
  checkFiles(parts, `${where}.parts`, trusted);
  const known = parts as UiParts; // the schema has returned them
  const models = await sdk
    .convertToModelMessages([{ role, parts: known }], { ignoreIncompleteToolCalls: true })
    .catch((error: unknown) => {
      throw invalid(where, toErrorMessage(error).slice(0, 200));
    });
  return { id, role, models, parts: known };
}

/**
 * Validates the parts of a message, a few per event loop turn. Throws an error that names the invalid part; the schema's own
 * error would list every part type. Returns undefined if something other than the parts is invalid.
 */
async function validateParts(
  parts: unknown,
  where: string,
  validate: (some: unknown) => Promise<readonly unknown[] | undefined>,
): Promise<readonly unknown[] | undefined> {
  if (!Array.isArray(parts) || parts.length === 0) return validate(parts);
  const known: unknown[] = [];
  for (let at = 0; at < parts.length; at += partsPerTurn) {
    if (at > 0) await nextTurn();
    const some = parts.slice(at, at + partsPerTurn);
    const valid = await validate(some);
    if (valid) known.push(...valid);
    else return refuseWrongPart(some, where, at, validate);
  }
  return known;
}
const partsPerTurn = 50;

async function refuseWrongPart(
  parts: readonly unknown[],
  where: string,
  first: number,
  validate: (some: unknown) => Promise<unknown>,
): Promise<undefined> {
  for (const [index, part] of parts.entries()) {
    if (await validate([part])) continue;
    const { type } = toObject(part);
    const kind = typeof type === "string" ? `a valid part of type ${JSON.stringify(type.slice(0, 50))}` : "a part";
    throw invalid(`${where}.${first + index}`, `not ${kind}`);
  }
  return undefined;
}

const maxId = 256;

export interface MessagePart {
  readonly type: string;
  readonly toolName?: string;
  readonly toolCallId?: string;
  readonly approvalId?: string;
  readonly providerExecuted?: boolean;
  /** The state of the agent that a tool has asked, in the request for an approval. */
  readonly inner?: InnerCall;
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
    if (part.type !== "tool-result") continue;
    calls.delete(part.toolCallId!);
    // Some providers use an id again: an approval is of one call, and counts for no later one.
    for (const [id, call] of approvals) if (call === part.toolCallId) approvals.delete(id);
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
