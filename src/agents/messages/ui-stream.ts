import type { UIMessage } from "ai";
import { attempt } from "../../core/attempt.ts";
import { toErrorMessage } from "../../core/error.ts";
import type { Sdk } from "../sdk.ts";
import type { SdkPart } from "./answer-parts.ts";
import { InvalidCalls } from "./invalid-calls.ts";
import type { UiParts } from "./ui-message.ts";

/**
 * The options of every UI message stream, so that a stored message has what the client was sent. Errors of tools are
 * meant to be shown, and messages of a `ServeError` are safe to show.
 */
export const uiStreamOptions: { readonly sendSources: true; readonly onError: (error: unknown) => string } = {
  sendSources: true,
  onError: toErrorMessage,
};

/** Returns the parts of a message that an answer has continued. The SDK builds them, as its client does. */
export async function continueParts(sdk: Sdk, before: UiParts, answer: readonly SdkPart[]): Promise<UiParts> {
  const message: UIMessage = { id: "-", role: "assistant", parts: before };
  let ended: UIMessage | undefined;
  const invalid = new InvalidCalls();
  const chunks = sdk.toUIMessageStream({
    ...uiStreamOptions,
    stream: toStream(answer.filter((part) => !invalid.isRepeated(part))),
    originalMessages: [message],
    onEnd: ({ responseMessage }) => void (ended = responseMessage),
  });
  const reader = chunks.getReader();
  while (!(await reader.read()).done); // the chunks are not needed
  if (!ended) throw new Error("The AI SDK returned no message");
  return ended.parts;
}

const toStream = (answer: readonly SdkPart[]): ReadableStream<SdkPart> =>
  new ReadableStream({
    start(controller) {
      for (const part of answer) controller.enqueue(part);
      controller.close();
    },
  });

/** Replaces the text of the last step by the JSON of its object. */
export function withObject(parts: UiParts, object: unknown): UiParts {
  const step = parts.findLastIndex(({ type }) => type === "step-start");
  const first = parts.findIndex(({ type }, index) => index > step && type === "text");
  const text = attempt(() => JSON.stringify(object)); // a schema in the author's code may return anything
  if (first < 0 || text === undefined) return parts;
  return parts.flatMap((part, index) => {
    if (index < first || part.type !== "text") return [part];
    return index === first ? [{ ...part, text }] : [];
  });
}

/**
 * Ends the parts of a message that was stopped: a text is what it was. A tool without its whole input is left out, and so is a
 * step without a part.
 */
export function toStopped(parts: UiParts): UiParts {
  const ended = parts.flatMap((part) => {
    if ((part.type === "text" || part.type === "reasoning") && part.state === "streaming") {
      return part.text === "" ? [] : [{ ...part, state: "done" as const }];
    }
    return "state" in part && part.state === "input-streaming" ? [] : [part];
  });
  return ended.slice(0, ended.findLastIndex(({ type }) => type !== "step-start") + 1);
}
