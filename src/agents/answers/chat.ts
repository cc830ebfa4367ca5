import type { UIMessageChunk } from "ai";
import type { StreamPart } from "../call/answers/answer.ts";
import { InvalidCalls } from "../messages/invalid-calls.ts";
import { toChunks } from "../messages/ui-chunks.ts";
import type { UiParts } from "../messages/ui-message.ts";
import { uiStreamOptions } from "../messages/ui-stream.ts";
import { loadSdk, type Sdk } from "../sdk.ts";

/**
 * Converts an answer to the UI message stream of the AI SDK, which `useChat` reads. `before` are the parts of the continued
 * message, for a reader without them.
 *
 * The parts are converted one by one: a stream of the SDK for each reader would take 20 KB.
 */
export async function* toChat(parts: AsyncGenerator<StreamPart>, before: UiParts = []): AsyncGenerator<UIMessageChunk> {
  let sdk: Sdk | undefined;
  const invalid = new InvalidCalls();
  for await (const part of parts) {
    if (invalid.isRepeated(part)) continue;
    if (part.type === "start") {
      yield { type: "start", messageId: part.messageId };
      yield* toChunks(before);
      continue;
    }
    sdk ??= await loadSdk();
    const chunk = sdk.toUIMessageChunk(toSdkPart(part), uiStreamOptions);
    if (chunk) yield chunk;
  }
}

/** Only the last part and an error are our own. The SDK reads only fields that these have. */
const toSdkPart = (part: StreamPart): never =>
  (part.type === "finish" ? { type: "finish", finishReason: part.answer.finishReason } : part) as never;
