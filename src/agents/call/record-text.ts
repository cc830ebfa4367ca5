import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { JsonText } from "../../core/json.ts";

/** Returns the text of a record or of a stored message. Bytes are base64 in it. */
export const toRecord = (value: unknown): JsonText => JSON.stringify(value, encodeBytes);

/** Encodes bytes as base64, which the SDK accepts. Reads `this[key]`: `value` may be the result of `toJSON()`. */
function encodeBytes(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const own = this[key];
  return own instanceof Uint8Array ? Buffer.from(own).toString("base64") : value;
}

/** Returns a part as the model sent it: JSON has changed the time of a response and the URL of a file. */
export function revive(part: LanguageModelV4StreamPart): LanguageModelV4StreamPart {
  if (part.type === "response-metadata" && part.timestamp !== undefined) {
    return { ...part, timestamp: new Date(part.timestamp) };
  }
  if ((part.type === "file" || part.type === "reasoning-file") && part.data.type === "url") {
    return { ...part, data: { type: "url", url: new URL(part.data.url) } };
  }
  return part;
}
