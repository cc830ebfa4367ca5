import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { RecordedCalls } from "../call/recorded-calls.ts";
import type { Sdk } from "../sdk.ts";
import { ModelFailure } from "./guarded-model.ts";

/**
 * Records the streams of a model. A recorded one is returned without asking the model.
 *
 * From the first tool call on, parts are held back until the whole call is recorded: the SDK runs a tool as soon as it sees
 * the call.
 */
export function recordModel(sdk: Sdk, model: LanguageModelV4, records: RecordedCalls): LanguageModelV4 {
  return sdk.wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: "v4",
      async wrapStream({ doStream }) {
        const known = records.takeModelCall();
        if (known) return { stream: toStream(known) };
        records.endStopped();
        const opened = await doStream();
        return { ...opened, stream: opened.stream.pipeThrough(new TransformStream(new PartRecorder(records))) };
      },
    },
  });
}

const toStream = (parts: readonly LanguageModelV4StreamPart[]): ReadableStream<LanguageModelV4StreamPart> =>
  new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

class PartRecorder implements Transformer<LanguageModelV4StreamPart, LanguageModelV4StreamPart> {
  readonly #records: RecordedCalls;
  /** The parts so far, with deltas joined. */
  readonly #parts: LanguageModelV4StreamPart[] = [];
  /** The parts since the first tool call. */
  #held: LanguageModelV4StreamPart[] | undefined;

  constructor(records: RecordedCalls) {
    this.#records = records;
  }

  async transform(
    part: LanguageModelV4StreamPart,
    controller: TransformStreamDefaultController<LanguageModelV4StreamPart>,
  ): Promise<void> {
    if (part.type === "error") {
      // Nothing of a call that has failed is recorded, and its tools do not run.
      controller.enqueue(part);
      return controller.terminate();
    }
    if (part.type !== "raw") addPart(this.#parts, part);
    if (part.type === "tool-call" && !part.providerExecuted) this.#held ??= [];
    if (part.type === "finish") {
      const saved = this.#records.saveModelCall(this.#parts);
      if (this.#held) await saved;
      else saved.catch(() => {}); // it has ended the turn
      for (const held of this.#held ?? []) controller.enqueue(held);
      this.#held = undefined;
    }
    if (this.#held) this.#held.push(part);
    else controller.enqueue(part);
  }

  flush(controller: TransformStreamDefaultController<LanguageModelV4StreamPart>): void {
    if (!this.#held) return;
    controller.enqueue({ type: "error", error: new ModelFailure("The model's answer ended without a finish part") });
  }
}

/** Adds a part to a list. A delta that continues the last part is joined with it. */
function addPart(parts: LanguageModelV4StreamPart[], part: LanguageModelV4StreamPart): void {
  const last = parts.at(-1);
  const isJoined =
    (part.type === "text-delta" || part.type === "reasoning-delta" || part.type === "tool-input-delta") &&
    last?.type === part.type &&
    last.id === part.id &&
    last.providerMetadata === undefined &&
    part.providerMetadata === undefined;
  if (isJoined) parts[parts.length - 1] = { ...last, delta: last.delta + part.delta };
  else parts.push(part);
}
