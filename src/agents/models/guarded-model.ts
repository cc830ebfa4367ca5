import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import type { LanguageModel } from "ai";
import { type Clock, within } from "../../core/clock.ts";
import type { UsageRow } from "../../engine/contract/usage.ts";
import type { ModelCall } from "../call/model-call.ts";
import type { RecordedCalls } from "../call/recorded-calls.ts";
import type { Sdk } from "../sdk.ts";
import { ModelAnswer } from "./model-answer.ts";
import { isRemote, withData } from "./model-file.ts";

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
  startModelCall(model: { provider: string; modelId: string }, params: LanguageModelV4CallOptions): ModelCall;
  /** Returns the row that counts the usage of one model call. */
  toUsageRow(model: { provider: string; modelId: string }, usage: LanguageModelV4Usage): UsageRow;
  /** The calls that are recorded. A recorded one is returned without asking the model. @default none */
  readonly records?: RecordedCalls | undefined;
  /** The reader of the answer. @default none: the model is asked for the whole answer, and nothing is recorded */
  readonly reader?: PartReader | undefined;
}
/** The reader of a streamed answer. */
export interface PartReader {
  /** Resolves when the reader has taken the part. Rejects if it has left. */
  show(part: LanguageModelV4StreamPart): Promise<void>;
  /** Ends the answer with an error: the model has begun to answer, so the SDK must not ask again. */
  fail(error: unknown): void;
  /** Hears of an error before the model has begun to answer. The SDK may ask again. */
  refuse(error: unknown): void;
  /** True for a tool of the provider whose result may come in a later model call. */
  isDeferred(toolName: string): boolean;
}

/** A model of an agent, for all of its calls. */
interface SharedModel {
  readonly sdk: Sdk;
  readonly model: LanguageModelV4;
  readonly limits: ModelLimits;
  readonly isUnfinished: (reason: LanguageModelV4FinishReason) => boolean;
}

/**
 * Adds time limits, spans, counts and records to a model. Every call ends, even if the model does not respond. An answer that
 * the model has not finished is an error. Returns a function that binds the model to an operation.
 *
 * A streamed answer is read here, and shown to its reader part by part. The SDK gets the whole: a stream around that of the
 * model would take 3 KB while it is open, a `TransformStream` 9 KB.
 */
export function guardModel(
  sdk: Sdk,
  model: Exclude<LanguageModel, string>,
  limits: ModelLimits,
): (host: ModelHost) => LanguageModelV4 {
  // The SDK converts models of older versions.
  const wrapped = sdk.wrapLanguageModel({ model, middleware: { specificationVersion: "v4" } });
  const shared: SharedModel = { sdk, model: wrapped, limits, isUnfinished: toUnfinishedCheck(model) };
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
  doStream(): never {
    throw new Error("A guarded model is read by doGenerate");
  }
  async doGenerate(options: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    options.abortSignal?.throwIfAborted(); // the first versions of AI SDK 7 call it although the turn has failed
    const { reader } = this.#host;
    return reader ? this.#readStream(options, reader) : this.#readWhole(options);
  }

  async #readWhole(options: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
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
      fail(this.#host, call, error);
      throw mark(error);
    }
  }

  async #readStream(options: LanguageModelV4CallOptions, reader: PartReader): Promise<LanguageModelV4GenerateResult> {
    const { records } = this.#host;
    const { model } = this.#shared;
    const { abortSignal: signal } = options;
    const known = records?.takeModelCall();
    if (known) {
      const answer = new ModelAnswer();
      for (const part of known) await this.#show(part, answer, reader, signal);
      return answer.toResult({}, reader);
    }
    records?.endStopped();
    const toUsageRow = (usage: LanguageModelV4Usage): UsageRow => this.#host.toUsageRow(model, usage);
    const answer = new ModelAnswer(records && { records, toUsageRow });
    const stream = await this.#open(options, reader);
    const leave = (): void => stream.cancel(signal?.reason);
    signal?.addEventListener("abort", leave, { once: true });
    try {
      for (let part; (part = await stream.next());) {
        if (part.type !== "error") await this.#show(part, answer, reader, signal);
        else {
          await reader.show(part); // it begins the step, as any part does
          throw part.error;
        }
      }
      return answer.toResult(stream.opened, reader);
    } catch (error) {
      stream.cancel(error);
      reader.fail(error);
      throw error;
    } finally {
      signal?.removeEventListener("abort", leave);
    }
  }

  async #show(
    part: LanguageModelV4StreamPart,
    answer: ModelAnswer,
    reader: PartReader,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const shown = isRemote(part) ? await withData(this.#shared.sdk, part, signal) : part;
    await answer.add(part, shown);
    await reader.show(shown);
  }

  /** Asks the model. The call ends with the last part of the stream, or when that is cancelled. */
  async #open(options: LanguageModelV4CallOptions, reader: PartReader): Promise<ModelStream> {
    const { model, limits } = this.#shared;
    const call = this.#host.startModelCall(model, options);
    const since = this.#host.clock.monotonic();
    try {
      const opened = await limit(
        this.#host,
        limits.modelFirstByteMs,
        call.enter(() => model.doStream(options)),
      );
      return new ModelStream(this.#shared, this.#host, call, since, opened);
    } catch (error) {
      fail(this.#host, call, error);
      const marked = mark(error);
      reader.refuse(marked);
      throw marked;
    }
  }
}

/** A stream of a model that has begun. */
class ModelStream {
  readonly opened: Omit<LanguageModelV4StreamResult, "stream">;
  readonly #shared: SharedModel;
  readonly #host: ModelHost;
  readonly #call: ModelCall;
  readonly #since: number;
  readonly #reader: ReadableStreamDefaultReader<LanguageModelV4StreamPart>;
  #hasBegun = false;
  #hasEnded = false;

  constructor(
    shared: SharedModel,
    host: ModelHost,
    call: ModelCall,
    since: number,
    { stream, ...opened }: LanguageModelV4StreamResult,
  ) {
    this.#shared = shared;
    this.#host = host;
    this.#call = call;
    this.#since = since;
    this.#reader = stream.getReader();
    this.opened = opened;
  }

  /** Returns the next part; undefined at the end. A failure is the last part. */
  async next(): Promise<LanguageModelV4StreamPart | undefined> {
    const { limits, isUnfinished } = this.#shared;
    const call = this.#call;
    const firstByteMs = limits.modelFirstByteMs - (this.#host.clock.monotonic() - this.#since);
    try {
      const ms = this.#hasBegun ? limits.modelGapMs : firstByteMs;
      const { value: part } = await limit(this.#host, ms, this.#reader.read());
      if (part) call.see(part);
      if (part?.type === "finish") call.use(part.usage);
      const isCut = !part || (part.type === "finish" && isUnfinished(part.finishReason));
      if (isCut && !this.#hasEnded)
        throw new ModelFailure("The stream of the model ended early, without a finish reason");
      if (part?.type === "finish") call.end("success");
      if (part?.type === "error") call.end("error", part.error);
      this.#hasEnded ||= part?.type === "finish";
      this.#hasBegun ||= part?.type !== "stream-start" && part?.type !== "response-metadata";
      return part?.type === "error" ? { ...part, error: toFailure(part.error) } : part;
    } catch (error) {
      fail(this.#host, call, error);
      return { type: "error", error: toFailure(error) };
    }
  }

  cancel(reason: unknown): void {
    this.#call.end("aborted", reason);
    void this.#reader.cancel(reason).catch(() => {});
  }
}

/** Aborts the operation if the model takes too long. */
function limit<T>(host: ModelHost, ms: number, answer: PromiseLike<T>): Promise<T> {
  const onLate = (): never => {
    const error = new ModelTimeout("Model call timed out");
    host.abort(error);
    throw error;
  };
  return within(ms, answer, { onLate, keepAlive: false, clock: host.clock });
}

function fail({ signal }: ModelHost, call: ModelCall, error: unknown): void {
  call.end(signal.aborted && !(error instanceof ModelTimeout) ? "aborted" : "error", error);
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
