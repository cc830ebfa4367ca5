import { toDetail, toErrorMessage } from "../../core/error.ts";
import type { StreamPart } from "../call/answers/answer.ts";
import { EventShapes } from "../shapes.ts";
import { toUsage } from "./usage.ts";

/**
 * Converts a part of an answer to a `stream` event, with only the fields of its shape. The SDK's other
 * fields contain the provider's requests and responses, and with them the instructions.
 */
export function toStreamEvent(part: StreamPart): { type: string; [key: string]: unknown } {
  const known = toKnown(part);
  const names = Object.keys(EventShapes[part.type as keyof typeof EventShapes]?.entries ?? { type: true });
  return Object.fromEntries(names.map((name) => [name, known[name]])) as { type: string };
}

function toKnown(part: StreamPart): Record<string, unknown> {
  switch (part.type) {
    case "text-delta":
    case "reasoning-delta":
      return { ...part, delta: part.text };
    case "finish": {
      const usage = toUsage(part.answer.usage);
      // The SDK names the sum `totalUsage`.
      return { type: "finish", finishReason: part.answer.finishReason, usage, totalUsage: usage };
    }
    case "finish-step": {
      const { id, timestamp, modelId } = part.response;
      return { ...part, usage: toUsage(part.usage), response: { id, timestamp, modelId } };
    }
    case "file":
    case "reasoning-file":
      return { ...part, mediaType: part.file.mediaType, data: part.file.base64 };
    case "error":
      return { ...part, error: part.error.message, detail: toDetail(part.error) };
    case "tool-error":
      return { ...part, error: toErrorMessage(part.error) };
    case "tool-call":
      return toCall(part);
    case "tool-approval-request":
      // The cast is needed because the SDK's union of all tool calls has no index signature.
      return { ...part, toolCall: toCall(part.toolCall as unknown as Record<string, unknown>) };
    default:
      return { ...part };
  }
}

const toCall = ({ error, ...call }: Record<string, unknown>): Record<string, unknown> =>
  error === undefined ? call : { ...call, error: toErrorMessage(error) };
