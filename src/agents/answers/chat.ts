import type { UIMessageChunk } from "ai";
import { toErrorMessage } from "../../core/error.ts";
import type { StreamPart } from "../call/call.ts";
import { loadSdk } from "../sdk.ts";

/** An answer as chat hooks read it: the UI message stream of the AI SDK. */
export async function* toChat(parts: AsyncGenerator<StreamPart>): AsyncGenerator<UIMessageChunk> {
  const sdk = await loadSdk();
  const first = await parts.next(); // what fails until here is a plain error
  if (first.done) return;
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
  // The tools' errors are meant to be seen, and ours say only what the caller may hear.
  const chunks = sdk.toUIMessageStream({ stream, sendSources: true, onError: toErrorMessage });
  for await (const chunk of chunks) yield chunk.type === "start" ? { ...chunk, messageId } : chunk;
}

async function* toSdkParts(first: StreamPart, rest: AsyncGenerator<StreamPart>): AsyncGenerator<never> {
  // Our parts are the SDK's own, but for the first and the last, of which it reads what ours have, too.
  yield first as never;
  for await (const part of rest) {
    yield (part.type === "finish" ? { type: "finish", finishReason: part.answer.finishReason } : part) as never;
  }
}
