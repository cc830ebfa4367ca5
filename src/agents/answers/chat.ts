import type { UIMessageChunk } from "ai";
import type { StreamPart } from "../call/call.ts";
import { toChunks } from "../messages/ui-chunks.ts";
import type { UiParts } from "../messages/ui-message.ts";
import { uiStreamOptions } from "../messages/ui-stream.ts";
import { loadSdk } from "../sdk.ts";

/**
 * Converts an answer to the UI message stream of the AI SDK, which `useChat` reads. `before` are the parts of a message that
 * the answer continues, for a reader that does not have them.
 */
export async function* toChat(parts: AsyncGenerator<StreamPart>, before: UiParts = []): AsyncGenerator<UIMessageChunk> {
  const first = await parts.next(); // an error thrown here becomes an error response
  if (first.done) return;
  const sdk = await loadSdk();
  const messageId = first.value.type === "start" ? first.value.messageId : undefined;
  const source = toSdkParts(first.value, parts);
  const stream = new ReadableStream<never>(
    {
      async pull(controller) {
        const { done, value } = await source.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => void source.return(undefined),
    },
    { highWaterMark: 0 },
  );
  const chunks = sdk.toUIMessageStream({ ...uiStreamOptions, stream });
  for await (const chunk of chunks) {
    yield chunk.type === "start" ? { ...chunk, messageId } : chunk;
    if (chunk.type === "start") yield* toChunks(before);
  }
}

async function* toSdkParts(first: StreamPart, rest: AsyncGenerator<StreamPart>): AsyncGenerator<never> {
  // All parts except the first and the last are SDK parts. In those two, the SDK reads only fields that ours have.
  yield first as never;
  for await (const part of rest) {
    yield (part.type === "finish" ? { type: "finish", finishReason: part.answer.finishReason } : part) as never;
  }
}
