import type {
  LanguageModelV4,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import type { LanguageModel } from "ai";
import type { Clock } from "../../core/clock.ts";
import { within } from "../../core/within.ts";
import type { UsageRow } from "../../engine/usage.ts";
import type { ModelCall } from "../call/model-call.ts";
import type { RecordedCalls } from "../call/recorded-calls.ts";
import type { Sdk } from "../sdk.ts";
import { PartRecorder } from "./part-recorder.ts";

export interface ModelLimits {
  readonly modelFirstByteMs: number;
  readonly modelGapMs: number;
}

/** The error of a model that exceeded a time limit. */
export class ModelTimeout extends Error {}
/**
 * The error of a model that cannot be loaded, throws a value that is not an object, fails during a stream, or does not say
 * that its answer is complete.
 */
export class ModelFailure extends Error {}
// The errors that providers threw. They are not wrapped, because the SDK reads them to decide on a retry.
const thrown = new WeakSet<object>();

export const isModelError = (error: unknown): boolean =>
  error instanceof ModelFailure || (typeof error === "object" && error !== null && thrown.has(error));

/** The operation on whose behalf the model is called. */
export interface ModelHost {
  readonly clock: Clock;
  /** Aborts the whole operation, including the request to the model. */
  abort(error: Error): void;
  /** Aborted when the whole operation is. */
  readonly signal: AbortSignal;
  /** Begins one model call, which is traced and counted. */
  startModelCall(model: { provider: string; modelId: string }): ModelCall;
  /** Returns the row that counts the usage of one model call. */
  toUsageRow(model: { provider: string; modelId: string }, usage: LanguageModelV4Usage): UsageRow;
  /** The calls that are recorded. A recorded one is returned without asking the model. @default none */
  readonly records?: RecordedCalls | undefined;
}

/**
 * Adds time limits, spans, counts and records to a model. Every call ends, even if the model does not respond. An answer that
 * the model has not finished is an error.
 *
 * All of it is one stream around that of the model: each further one would take 3 KB while it is open, a `TransformStream` 9 KB.
 */
export function guardModel(
  sdk: Sdk,
  model: Exclude<LanguageModel, string>,
  { modelFirstByteMs, modelGapMs }: ModelLimits,
  host: ModelHost,
): LanguageModelV4 {
  const { clock } = host;
  const limit = <T>(ms: number, answer: PromiseLike<T>): Promise<T> =>
    within(ms, answer, { onLate, keepAlive: false, clock });
  function onLate(): never {
    const error = new ModelTimeout("Model call timed out");
    host.abort(error);
    throw error;
  }
  const fail = (call: ModelCall, error: unknown): void =>
    call.end(host.signal.aborted && !(error instanceof ModelTimeout) ? "aborted" : "error", error);
  const isUnfinished = toUnfinishedCheck(model);
  return sdk.wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: "v4",
      async wrapGenerate({ doGenerate, model: asked }) {
        const call = host.startModelCall(asked);
        try {
          const answer = await limit(modelFirstByteMs, call.enter(doGenerate));
          call.use(answer.usage);
          if (isUnfinished(answer.finishReason)) throw new ModelFailure("The answer of the model has no finish reason");
          call.end("success");
          return answer;
        } catch (error) {
          fail(call, error);
          throw mark(error);
        }
      },
      async wrapStream({ doStream, model: asked }) {
        const { records } = host;
        const known = records?.takeModelCall();
        if (known) return { stream: toStream(known) };
        records?.endStopped();
        const call = host.startModelCall(asked);
        const since = clock.monotonic();
        const firstByte = (): number => modelFirstByteMs - (clock.monotonic() - since);
        try {
          const opened = await limit(firstByte(), call.enter(doStream));
          const reader = opened.stream.getReader();
          let begun = false;
          let ended = false;
          /** Returns the next part; undefined at the end. A failure is the last part. */
          const next = async (): Promise<LanguageModelV4StreamPart | undefined> => {
            try {
              const { value: part } = await limit(begun ? modelGapMs : firstByte(), reader.read());
              if (part?.type === "finish") call.use(part.usage);
              const isCut = !part || (part.type === "finish" && isUnfinished(part.finishReason));
              if (isCut && !ended)
                throw new ModelFailure("The stream of the model ended early, without a finish reason");
              if (part?.type === "finish") call.end("success");
              if (part?.type === "error") call.end("error", part.error);
              ended ||= part?.type === "finish";
              begun ||= part?.type !== "stream-start" && part?.type !== "response-metadata";
              return part?.type === "error" ? { ...part, error: toFailure(part.error) } : part;
            } catch (error) {
              fail(call, error);
              return { type: "error", error: toFailure(error) };
            }
          };
          const recorder = records && new PartRecorder(records, (usage) => host.toUsageRow(asked, usage));
          const cancel = (reason: unknown): Promise<void> => (call.end("aborted", reason), reader.cancel(reason));
          return { ...opened, stream: toGuardedStream(next, cancel, recorder) };
        } catch (error) {
          fail(call, error);
          throw mark(error);
        }
      },
    },
  });
}

/**
 * Returns a check for the finish reason of an answer that was cut off. Provider packages begin with the reason `other` and
 * without a raw one, and replace it by the reason that the provider sends. Models of version 2 have no raw reasons, so that
 * theirs cannot be told from a reason that the provider has sent.
 */
function toUnfinishedCheck(model: Exclude<LanguageModel, string>): (reason: LanguageModelV4FinishReason) => boolean {
  if (model.specificationVersion === "v2") return () => false;
  return ({ unified, raw }) => unified === "other" && raw === undefined;
}

/** Creates a stream that ends at the first `error` part. */
function toGuardedStream(
  next: () => Promise<LanguageModelV4StreamPart | undefined>,
  cancel: (reason: unknown) => Promise<void>,
  recorder: PartRecorder | undefined,
): ReadableStream<LanguageModelV4StreamPart> {
  return new ReadableStream<LanguageModelV4StreamPart>(
    {
      async pull(controller) {
        for (let isHeld = true; isHeld;) {
          const part = await next();
          if (!part) return controller.close();
          const parts = recorder ? await recorder.add(part) : [part];
          for (const one of parts) controller.enqueue(one);
          isHeld = parts.length === 0;
          if (part.type !== "error") continue;
          controller.close();
          await cancel(part.error).catch(() => {});
        }
      },
      cancel,
    },
    { highWaterMark: 0 },
  );
}

const toStream = (parts: readonly LanguageModelV4StreamPart[]): ReadableStream<LanguageModelV4StreamPart> =>
  new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

function mark(error: unknown): unknown {
  if (error instanceof ModelTimeout) return error;
  if (typeof error !== "object" || error === null) return new ModelFailure(String(error));
  thrown.add(error);
  return error;
}

function toFailure(error: unknown): Error {
  if (error instanceof ModelTimeout) return error;
  return new ModelFailure(error instanceof Error ? error.message : JSON.stringify(error), { cause: error });
}
