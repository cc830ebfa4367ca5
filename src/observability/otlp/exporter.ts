import { setTimeout as sleep } from "node:timers/promises";
import type { Totals } from "../../core/metrics.ts";
import { runOutOfScope } from "../../core/scope.ts";
import type { Post } from "./post.ts";
import type { OtlpSettings } from "./settings.ts";
import { toSize, type SpanRecord } from "./span-record.ts";

export interface ExporterParts {
  readonly settings: Pick<OtlpSettings, "queueSpans" | "batchSpans" | "delayMs" | "timeoutMs">;
  readonly encode: (spans: readonly SpanRecord[]) => Buffer;
  readonly post: Post;
  /** Cuts the requests in flight. */
  readonly cut: () => void;
  /** Counts spans by their end. */
  readonly totals: Pick<Totals, "exportedSpans" | "droppedSpans">;
  /** Called at most once a minute while spans are dropped, with the reason and their number since the last call. */
  readonly onDropped: (reason: string, count: number) => void;
  /** @default 1000 */
  readonly firstRetryMs?: number;
}

/**
 * The spans that wait for their export.
 *
 * E1. At most `queueSpans` and `queueBytes` wait, and one batch is sent at a time. A span beyond that is dropped.
 * E2. Every span that is pushed is counted once: as exported, or as dropped.
 * E3. After the queue was full, it is paused until half of it is free: while the receiver is down, hardly any span is created.
 * E4. A batch that fails is repeated after a pause if that may help, and dropped after `maxTries`.
 */
export class SpanExporter {
  readonly #parts: ExporterParts;
  #queue: SpanRecord[] = [];
  #sizes: number[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  /** Aborted when the exporter closes: it ends a pause between two tries. */
  readonly #closing = new AbortController();
  /** The reason why the last try failed. */
  #failure: string | undefined;
  #quietUntil = 0;
  #unreported = 0;
  #isPaused = false;

  constructor(parts: ExporterParts) {
    this.#parts = parts;
  }

  push(span: SpanRecord): void {
    const { queueSpans, batchSpans, delayMs } = this.#parts.settings;
    if (this.#closing.signal.aborted) return this.#drop(1, shuttingDown);
    const size = toSize(span);
    if (this.#queue.length >= queueSpans || this.#bytes + size > queueBytes) {
      this.#isPaused = true;
      return this.#drop(1, this.#failure ?? queueFull);
    }
    this.#queue.push(span);
    this.#sizes.push(size);
    this.#bytes += size;
    if (this.#sending) return;
    if (this.#queue.length >= batchSpans) this.#start();
    else this.#timer ??= runOutOfScope(() => setTimeout(() => this.#start(), delayMs).unref());
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Sends everything that waits, each batch once, and takes no more spans. Resolves to the number of lost spans. */
  async close(ms: number): Promise<number> {
    const before = this.#parts.totals.droppedSpans;
    const late = setTimeout(this.#parts.cut, ms);
    this.#closing.abort();
    await this.#sending;
    if (!this.#failure) this.#start();
    await this.#sending;
    clearTimeout(late);
    this.#dropAll(this.#failure ?? shuttingDown);
    return this.#parts.totals.droppedSpans - before;
  }

  #start(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sending || this.#queue.length === 0) return;
    // In another turn of the event loop: encoding a batch takes milliseconds.
    this.#sending = runOutOfScope(() => new Promise<void>((resolve) => setImmediate(resolve)))
      .then(() => this.#sendAll())
      .finally(() => {
        this.#sending = undefined;
        if (this.#closing.signal.aborted) return;
        const { batchSpans, delayMs } = this.#parts.settings;
        if (this.#queue.length >= batchSpans) this.#start();
        else if (this.#queue.length > 0) this.#timer ??= setTimeout(() => this.#start(), delayMs).unref();
      });
  }

  /** Sends what waits now, in batches. Never rejects. */
  async #sendAll(): Promise<void> {
    for (let left = this.#queue.length; left > 0;) {
      const spans = this.#take();
      left -= spans.length;
      const failure = await this.#send(spans);
      if (failure === undefined) this.#parts.totals.exportedSpans += spans.length;
      else this.#drop(spans.length, failure);
      if (this.#failure && this.#closing.signal.aborted) return;
    }
  }

  #take(): SpanRecord[] {
    const { batchSpans, queueSpans } = this.#parts.settings;
    let count = 0;
    let bytes = 0;
    while (
      count < batchSpans &&
      count < this.#queue.length &&
      (count === 0 || bytes + this.#sizes[count]! <= batchBytes)
    )
      bytes += this.#sizes[count++]!;
    this.#bytes -= bytes;
    this.#sizes.splice(0, count);
    const taken = this.#queue.splice(0, count);
    this.#isPaused &&= this.#queue.length > queueSpans / 2 || this.#bytes > queueBytes / 2;
    return taken;
  }

  /** Returns the reason if the batch was not accepted. */
  async #send(spans: readonly SpanRecord[]): Promise<string | undefined> {
    const { encode, post, settings, firstRetryMs = 1_000 } = this.#parts;
    const body = encode(spans);
    for (let tries = 1; ; tries++) {
      const result = await post(body, settings.timeoutMs).catch((error: Error) => error);
      const failure = result instanceof Error ? result.message : toFailure(result.status);
      this.#failure = failure;
      if (failure === undefined) return undefined;
      const isFinal = !(result instanceof Error) && !retryable.has(result.status);
      if (isFinal || tries === maxTries || this.#closing.signal.aborted) return failure;
      const asked = result instanceof Error ? undefined : toMs(result.retryAfter);
      // Jitter keeps many processes from trying again at the same time.
      const pause = asked ?? firstRetryMs * 2 ** (tries - 1) * (0.8 + Math.random() * 0.4);
      await sleep(Math.min(pause, longestPauseMs), undefined, { signal: this.#closing.signal, ref: false }).catch(
        () => {},
      );
    }
  }

  #dropAll(reason: string): void {
    const { length } = this.#queue;
    this.#queue = [];
    this.#sizes = [];
    this.#bytes = 0;
    if (length > 0) this.#drop(length, reason);
  }

  #drop(count: number, reason: string): void {
    this.#parts.totals.droppedSpans += count;
    this.#unreported += count;
    if (performance.now() < this.#quietUntil) return;
    this.#quietUntil = performance.now() + quietMs;
    const dropped = this.#unreported;
    this.#unreported = 0;
    runOutOfScope(() => this.#parts.onDropped(reason, dropped));
  }
}

/** Max memory of the spans that wait. */
const queueBytes = 16_777_216;
/** Max memory of the spans of one request. */
const batchBytes = 2_097_152;
const queueFull = "the queue is full";
const shuttingDown = "the server is shutting down";
const maxTries = 5;
const longestPauseMs = 30_000;
const quietMs = 60_000;
const retryable = new Set([429, 502, 503, 504]);

const toFailure = (status: number): string | undefined =>
  status >= 200 && status <= 299 ? undefined : `the response has status ${status}`;

/** Parses `Retry-After`: seconds, or a date. */
function toMs(retryAfter: string | undefined): number | undefined {
  if (retryAfter === undefined) return undefined;
  const ms = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1_000 : Date.parse(retryAfter) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}
