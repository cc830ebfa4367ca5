import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { JsonText } from "../../core/json.ts";
import type { AgentInput } from "./history/messages.ts";

/** The beginning of a turn: what must be the same when the turn is repeated. */
export interface TurnStart {
  /** Undefined if it is stored with the turn, or given again. */
  readonly input: AgentInput | undefined;
  readonly instructions: string | undefined;
  readonly tools: readonly ToolSignature[];
  /** A secret from which the ids of approvals are made. Absent in turns of older releases. */
  readonly seed?: string | undefined;
}
/** The name of a tool, and a digest of its output schema. The digest is empty without a schema. */
export type ToolSignature = readonly [name: string, output: string];

export const stopName = "stop";
export const toModelName = (index: number): string => `model#${index}`;
export const toolPrefix = "tool ";
/** The number of the model call distinguishes a call whose id was used by an earlier one. */
export const toToolName = (id: string, first: number, current: number): string =>
  toolPrefix + (first === current ? id : `${id}#${current}`);

/** Returns the text of a record or a stored message. Bytes are base64 in it. */
export const toRecord = (value: unknown): JsonText => JSON.stringify(value, encodeBytes);

/** Encodes bytes as base64, which the SDK accepts. Reads `this[key]`: `value` may be the result of `toJSON()`. */
function encodeBytes(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const own = this[key];
  return own instanceof Uint8Array ? Buffer.from(own).toString("base64") : value;
}

/** Returns a part as the model sent it: JSON changes response times and file URLs. */
export function revive(part: LanguageModelV4StreamPart): LanguageModelV4StreamPart {
  if (part.type === "response-metadata" && part.timestamp !== undefined) {
    return { ...part, timestamp: new Date(part.timestamp) };
  }
  if ((part.type === "file" || part.type === "reasoning-file") && part.data.type === "url") {
    return { ...part, data: { type: "url", url: new URL(part.data.url) } };
  }
  return part;
}
