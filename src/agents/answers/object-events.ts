import { toDetail } from "../../core/error.ts";
import type { JsonSchema } from "../../core/schemas/json-schema.ts";
import { isDeeper } from "../../core/json.ts";
import type { StreamPart } from "../call/answers/answer.ts";
import { maxDepth, unwrap } from "../schemas/object-shape.ts";
import { loadSdk } from "../sdk.ts";
import { toUsage } from "./usage.ts";
import { toWaiting } from "./waiting.ts";

/** Converts an answer to events with a growing object. The last event has the complete, validated object. */
export async function* toObjectEvents(
  parts: AsyncGenerator<StreamPart>,
  schema: JsonSchema,
): AsyncGenerator<Record<string, unknown>> {
  let text = "";
  let next = 0;
  let last: string | undefined;
  for await (const part of parts) {
    if (part.type === "start-step") {
      text = ""; // text before a tool call is not part of the object
      next = 0;
    } else if (part.type === "text-delta") {
      text += part.text;
      if (text.length < next) continue;
      next = text.length + text.length / 64; // parsing everything for each word would take quadratic time
      const { parsePartialJson } = await loadSdk();
      const { value } = await parsePartialJson(text);
      const object = unwrap(schema, value);
      if (isDeeper(object, maxDepth)) continue; // reported when the complete object is validated
      const shown = JSON.stringify(object);
      if (object === undefined || object === null || shown === last) continue;
      last = shown;
      yield { type: "partial-object", object };
    } else if (part.type === "finish") {
      const { object, usage, finishReason, approvals } = part.answer;
      const isWaiting = toWaiting(part.answer);
      if (isWaiting) yield { type: "error", error: isWaiting.message, ...(approvals.length > 0 && { approvals }) };
      else yield { type: "object", object, usage: toUsage(usage), finishReason };
    } else if (part.type === "error") {
      yield { type: "error", error: part.error.message, detail: toDetail(part.error) };
    }
  }
}
