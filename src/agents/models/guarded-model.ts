import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
} from "@ai-sdk/provider";
import type { LanguageModel } from "ai";
import type { Sdk } from "../sdk.ts";
import { createModel, toModelParts } from "./create-model.ts";
import { markThrown, ModelFailure } from "./model-failure.ts";
import {
  endFailed,
  limit,
  toGuardedStream,
  type ModelHost,
  type ModelLimits,
  type SharedModel,
} from "./model-stream.ts";
import { PartRecorder } from "./part-recorder.ts";

/**
 * Adds time limits, spans, counts and records to a model. Every call ends, even if the model does not respond. An answer that
 * the model has not finished is an error. Returns a function that binds the model to an operation.
 */
export function guardModel(
  sdk: Sdk,
  model: Exclude<LanguageModel, string>,
  limits: ModelLimits,
): (host: ModelHost) => LanguageModelV4 {
  // The SDK converts models of older versions.
  const wrapped = sdk.wrapLanguageModel({ model, middleware: { specificationVersion: "v4" } });
  const shared: SharedModel = { model: wrapped, limits, isUnfinished: toUnfinishedCheck(model) };
  return (host) => new GuardedModel(shared, host);
}

class GuardedModel implements LanguageModelV4 {
  readonly specificationVersion = "v4";
  readonly #shared: SharedModel;
  readonly #host: ModelHost;

  constructor(shared: SharedModel, host: ModelHost) {
    this.#shared = shared;
    this.#host = host;
  }

  get provider(): string {
    return this.#shared.model.provider;
  }
  get modelId(): string {
    return this.#shared.model.modelId;
  }
  get supportedUrls(): LanguageModelV4["supportedUrls"] {
    return this.#shared.model.supportedUrls;
  }

  async doGenerate(options: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    options.abortSignal?.throwIfAborted(); // the first versions of AI SDK 7 call it although the turn has failed
    const { model, limits, isUnfinished } = this.#shared;
    const call = this.#host.startModelCall(model, options);
    try {
      const answer = await limit(
        this.#host,
        limits.modelFirstByteMs,
        call.enter(() => model.doGenerate(options)),
      );
      call.answer(answer);
      call.use(answer.usage);
      if (isUnfinished(answer.finishReason)) throw new ModelFailure("The answer of the model has no finish reason");
      call.end("success");
      return answer;
    } catch (error) {
      endFailed(this.#host, call, error);
      throw markThrown(error);
    }
  }

  async doStream(options: LanguageModelV4CallOptions): Promise<LanguageModelV4StreamResult> {
    const { abortSignal: signal } = options;
    signal?.throwIfAborted();
    const { records, isPaused, clock } = this.#host;
    if (isPaused) return silent.doStream(options);
    const known = records?.takeModelCall();
    if (known) return { stream: toStream(known) };
    records?.endStopped();
    const { model, limits } = this.#shared;
    const call = this.#host.startModelCall(model, options);
    const since = clock.monotonic();
    try {
      const { stream, ...opened } = await limit(
        this.#host,
        limits.modelFirstByteMs,
        call.enter(() => model.doStream(options)),
      );
      const recorder = records && new PartRecorder(records, (usage) => this.#host.trace.toUsageRow(model, usage));
      const request = { shared: this.#shared, host: this.#host, call, since, stream, recorder };
      return { ...opened, stream: toGuardedStream(request, signal) };
    } catch (error) {
      endFailed(this.#host, call, error);
      throw markThrown(error);
    }
  }
}

/** The model of a paused operation. The SDK always asks a model after it has run the tools that were approved. */
const silent = createModel("silent", () => toModelParts({ usage: { inputTokens: 0, outputTokens: 0 } }));

const toStream = (parts: readonly LanguageModelV4StreamPart[]): ReadableStream<LanguageModelV4StreamPart> =>
  new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

/**
 * Returns a check for the finish reason of a truncated answer. Provider packages begin with the reason `other` and
 * without a raw one, and replace it by the reason from the provider. Models of version 2 have no raw reasons: theirs cannot
 * be told from a real one.
 */
function toUnfinishedCheck(model: Exclude<LanguageModel, string>): (reason: LanguageModelV4FinishReason) => boolean {
  if (model.specificationVersion === "v2") return () => false;
  return ({ unified, raw }) => unified === "other" && raw === undefined;
}
