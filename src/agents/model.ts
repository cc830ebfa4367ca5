import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { LanguageModel } from "ai";
import type { Sdk } from "./sdk.ts";

export interface ModelLimits {
  readonly modelFirstByteMs: number;
  readonly modelGapMs: number;
}

/** The model took too long. */
export class ModelTimeout extends Error {}
/** The model failed in the middle of its answer. */
export class ModelFailure extends Error {}
// What a provider throws stays as it is: the SDK asks it whether to try again.
const thrown = new WeakSet<object>();

export const isModelError = (error: unknown): boolean =>
  error instanceof ModelFailure || (typeof error === "object" && error !== null && thrown.has(error));

/** The model, held to its limits: whatever it does or fails to do, each call of it ends. */
export function guardModel(sdk: Sdk, model: Exclude<LanguageModel, string>, limits: ModelLimits): LanguageModelV4 {
  const { modelFirstByteMs, modelGapMs } = limits;
  return sdk.wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: "v4",
      async wrapGenerate({ model: inner, params }) {
        const watch = new Watch(params.abortSignal);
        try {
          const answer = inner.doGenerate({ ...params, abortSignal: watch.signal });
          return await watch.within(modelFirstByteMs, answer);
        } catch (error) {
          throw mark(error);
        } finally {
          watch.close();
        }
      },
      async wrapStream({ model: inner, params }) {
        const watch = new Watch(params.abortSignal);
        const since = performance.now();
        const firstByte = (): number => modelFirstByteMs - (performance.now() - since);
        try {
          const opened = await watch.within(firstByte(), inner.doStream({ ...params, abortSignal: watch.signal }));
          return { ...opened, stream: toGuardedStream(opened.stream, watch, firstByte, modelGapMs) };
        } catch (error) {
          watch.close();
          throw mark(error);
        }
      },
    },
  });
}

/** A stream that ends: with an error when the model fails, or is silent for too long while somebody reads. */
function toGuardedStream(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  watch: Watch,
  firstByte: () => number,
  gapMs: number,
): ReadableStream<LanguageModelV4StreamPart> {
  const reader = stream.getReader();
  let begun = false;
  return new ReadableStream<LanguageModelV4StreamPart>(
    {
      async pull(controller) {
        try {
          const { done, value } = await watch.within(begun ? gapMs : firstByte(), reader.read());
          if (done) {
            watch.close();
            return controller.close();
          }
          begun ||= value.type !== "stream-start" && value.type !== "response-metadata";
          controller.enqueue(value.type === "error" ? { ...value, error: toFailure(value.error) } : value);
        } catch (error) {
          watch.close();
          controller.enqueue({ type: "error", error: toFailure(error) });
          controller.close();
        }
      },
      cancel(reason) {
        watch.abort(reason);
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

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

/** Waits for a model, but not for ever, and not once the caller has gone; the model hears of both. */
class Watch {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  #reject: ((reason: unknown) => void) | undefined;

  constructor(outer: AbortSignal | undefined) {
    this.#outer = outer;
    if (outer?.aborted) this.abort(outer.reason);
    else outer?.addEventListener("abort", this.#leave, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly #leave = (): void => this.abort(this.#outer?.reason);

  abort(reason: unknown): void {
    this.#controller.abort(reason);
    this.#reject?.(reason);
    this.close();
  }

  within<T>(ms: number, waited: PromiseLike<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.signal.aborted) reject(this.signal.reason as Error);
      this.#reject = reject;
      const timer = setTimeout(() => this.abort(new ModelTimeout("Model call timed out")), Math.max(ms, 0)).unref();
      const end = (): void => {
        clearTimeout(timer);
        this.#reject = undefined;
      };
      waited.then(
        (value) => (end(), resolve(value)),
        (error: unknown) => (end(), reject(error as Error)),
      );
    });
  }

  close(): void {
    this.#outer?.removeEventListener("abort", this.#leave);
  }
}
