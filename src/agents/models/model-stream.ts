import { setImmediate as nextTurn } from "node:timers/promises";
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import { type Clock, within } from "../../core/clock.ts";
import type { CallTrace } from "../call/call-trace.ts";
import type { ModelCall } from "../call/model-call.ts";
import type { RecordedCalls } from "../call/recorded-calls.ts";
import { ModelFailure, ModelTimeout, toStreamFailure } from "./model-failure.ts";
import { continuesDelta, type PartRecorder } from "./part-recorder.ts";

export interface ModelLimits {
  readonly modelFirstByteMs: number;
  readonly modelGapMs: number;
}

/** The operation on whose behalf the model is called. */
export interface ModelHost {
  readonly clock: Clock;
  /** Aborts the whole operation, including the request to the model. */
  abort(error: Error): void;
  /** Aborted when the whole operation is. */
  readonly signal: AbortSignal;
  /** Begins one model call, which is traced and counted. */
  startModelCall(model: { provider: string; modelId: string }, params: LanguageModelV4CallOptions): ModelCall;
  /** Makes the row that counts the usage of one model call. */
  readonly trace: Pick<CallTrace, "toUsageRow">;
  /** The calls that are recorded. A recorded one is returned without asking the model. @default none */
  readonly records?: RecordedCalls | undefined;
  /** True while no model must be asked. @default false */
  readonly isPaused?: boolean;
}

/** A model of an agent, for all of its calls. */
export interface SharedModel {
  readonly model: LanguageModelV4;
  readonly limits: ModelLimits;
  /** True for the finish reason of an answer that was cut off. */
  readonly isUnfinished: (reason: LanguageModelV4FinishReason) => boolean;
}

/** A request to a model that has sent its stream. */
export interface OpenRequest {
  readonly shared: SharedModel;
  readonly host: ModelHost;
  readonly call: ModelCall;
  /** The time of the request, by the monotonic clock. */
  readonly since: number;
  readonly stream: ReadableStream<LanguageModelV4StreamPart>;
  /** Undefined if the call is not recorded. */
  readonly recorder: PartRecorder | undefined;
}

/**
 * The answer of one model call as the SDK reads it.
 *
 * S1. Its first part arrives within `modelFirstByteMs` of the request, each further one within `modelGapMs`.
 * S2. It ends at its first `error` part. A stream without a finish reason ends with one.
 * S3. The call ends with the last part, or when the SDK leaves.
 * S4. The model is read at most `maxAhead` parts ahead. When many deltas of a text wait, they are one part: the SDK needs
 *     more time for a part than a fast model.
 *
 * It is one stream around that of the model: each further one takes 3 KB while it is open, a `TransformStream` 9 KB.
 */
export function toGuardedStream(
  request: OpenRequest,
  signal: AbortSignal | undefined,
): ReadableStream<LanguageModelV4StreamPart> {
  const parts = new GuardedParts(request);
  const leave = (): void => parts.cancel(signal?.reason);
  signal?.addEventListener("abort", leave, { once: true });
  return new ReadableStream(
    {
      async pull(controller) {
        const next = await parts.next();
        for (const part of next) controller.enqueue(part);
        if (next.length > 0) return;
        signal?.removeEventListener("abort", leave);
        controller.close();
      },
      cancel(reason) {
        signal?.removeEventListener("abort", leave);
        parts.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

class GuardedParts {
  readonly #request: OpenRequest;
  readonly #reader: ReadableStreamDefaultReader<LanguageModelV4StreamPart>;
  /** The parts that were read ahead. */
  readonly #ahead: LanguageModelV4StreamPart[] = [];
  #isReading = false;
  /** True if the SDK is slower than the model. Then other streams get a turn of the event loop before the next part. */
  #isBehind = false;
  #wake: (() => void) | undefined;
  #hasBegun = false;
  #hasFinished = false;
  #hasEnded = false;

  constructor(request: OpenRequest) {
    this.#request = request;
    this.#reader = request.stream.getReader();
  }

  /** Returns the parts that the SDK may see now. None at the end. */
  async next(): Promise<readonly LanguageModelV4StreamPart[]> {
    const { recorder } = this.#request;
    for (let part; (part = await this.#take());) {
      const shown = recorder ? await recorder.add(part) : [part];
      if (shown.length > 0) return shown;
    }
    return [];
  }

  async #take(): Promise<LanguageModelV4StreamPart | undefined> {
    void this.#readAhead();
    if (this.#isBehind) await nextTurn();
    if (this.#ahead.length === 0 && !this.#hasEnded) await new Promise<void>((resolve) => (this.#wake = resolve));
    const part = this.#ahead.shift();
    this.#isBehind = this.#ahead.length >= minJoined;
    if (!part || !isText(part) || !this.#isBehind) return part;
    const isOther = (next: LanguageModelV4StreamPart): boolean => !isText(next) || !continuesDelta(part, next);
    const other = this.#ahead.findIndex(isOther);
    const rest = this.#ahead.splice(0, other < 0 ? this.#ahead.length : other) as TextDelta[];
    return rest.length > 0 ? { ...part, delta: part.delta + rest.map(({ delta }) => delta).join("") } : part;
  }

  async #readAhead(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    while (!this.#hasEnded && this.#ahead.length < maxAhead) {
      const part = await this.#read();
      if (part) this.#ahead.push(part);
      if (part?.type === "error") this.cancel(part.error);
      this.#hasEnded ||= !part;
      this.#wake?.();
    }
    this.#isReading = false;
  }

  /** Returns the next part; undefined at the end. A failure is a part. */
  async #read(): Promise<LanguageModelV4StreamPart | undefined> {
    const { shared, host, call, since } = this.#request;
    const { limits, isUnfinished } = shared;
    const firstByteMs = limits.modelFirstByteMs - (host.clock.monotonic() - since);
    try {
      const { value: part } = await limit(host, this.#hasBegun ? limits.modelGapMs : firstByteMs, this.#reader.read());
      if (part) call.see(part);
      if (part?.type === "finish") call.use(part.usage);
      const isCut = !part || (part.type === "finish" && isUnfinished(part.finishReason));
      if (isCut && !this.#hasFinished)
        throw new ModelFailure("The stream of the model ended early, without a finish reason");
      if (part?.type === "finish") call.end("success");
      if (part?.type === "error") call.end("error", part.error);
      this.#hasFinished ||= part?.type === "finish";
      this.#hasBegun ||= part?.type !== "stream-start" && part?.type !== "response-metadata";
      return part?.type === "error" ? { ...part, error: toStreamFailure(part.error) } : part;
    } catch (error) {
      endFailed(host, call, error);
      return { type: "error", error: toStreamFailure(error) };
    }
  }

  cancel(reason: unknown): void {
    this.#hasEnded = true;
    this.#wake?.();
    this.#request.call.end("aborted", reason);
    void this.#reader.cancel(reason).catch(() => {});
  }
}

/** Max parts that are read ahead. */
const maxAhead = 100;
/** Min waiting parts with which deltas are joined. */
const minJoined = 16;

type TextDelta = Extract<LanguageModelV4StreamPart, { type: "text-delta" | "reasoning-delta" }>;
const isText = (part: LanguageModelV4StreamPart): part is TextDelta =>
  part.type === "text-delta" || part.type === "reasoning-delta";

/** Aborts the operation if the model takes too long. */
export function limit<T>(host: ModelHost, ms: number, answer: PromiseLike<T>): Promise<T> {
  const onLate = (): never => {
    const error = new ModelTimeout("Model call timed out");
    host.abort(error);
    throw error;
  };
  return within(ms, answer, { onLate, keepAlive: false, clock: host.clock });
}

/** Ends a call that has failed. */
export function endFailed({ signal }: ModelHost, call: ModelCall, error: unknown): void {
  call.end(signal.aborted && !(error instanceof ModelTimeout) ? "aborted" : "error", error);
}
