import { BatchSpanProcessor, type ReadableSpan, type SpanExporter, type SpanProcessor } from "@opentelemetry/sdk-trace";
import type { Totals } from "../../core/metrics.ts";
import { runOutOfScope } from "../../core/scope.ts";
import { within } from "../../core/clock.ts";
import type { OtlpSettings } from "./settings.ts";

type ExportResult = Parameters<Parameters<SpanExporter["export"]>[1]>[0];
const success: ExportResult["code"] = 0;

export interface QueueParts {
  readonly settings: Pick<OtlpSettings, "queueSpans" | "batchSpans" | "delayMs" | "timeoutMs">;
  readonly exporter: SpanExporter;
  readonly totals: Pick<Totals, "exportedSpans" | "droppedSpans">;
  /** Called at most once a minute while spans are dropped, with the reason and their number since the last call. */
  readonly onDropped: (reason: string, count: number) => void;
}

/**
 * Bounds and counts the spans in front of OpenTelemetry's batch processor.
 *
 * E1. At most `queueSpans` and `queueBytes` wait or are being sent. A span beyond that is dropped.
 * E2. Every span is counted once: as exported, or as dropped.
 * E3. A full queue is paused until half of it is free: while the receiver is down, hardly any span is created.
 */
export class ExportQueue implements SpanProcessor {
  readonly #parts: QueueParts;
  readonly #batches: BatchSpanProcessor;
  #spans = 0;
  #bytes = 0;
  #isPaused = false;
  #state: "open" | "closing" | "closed" = "open";
  /** The reason why the last request failed. */
  #failure: string | undefined;
  #quietUntil = 0;
  #unreported = 0;

  constructor(parts: QueueParts) {
    const { exporter, settings } = parts;
    this.#parts = parts;
    this.#batches = new BatchSpanProcessor({
      exporter: {
        export: (spans, done) =>
          exporter.export(spans, (result) => {
            this.#release(spans, result);
            done(result);
          }),
        shutdown: () => exporter.shutdown(),
      },
      maxQueueSize: settings.queueSpans,
      maxExportBatchSize: settings.batchSpans,
      scheduledDelayMillis: settings.delayMs,
      exportTimeoutMillis: 2 * settings.timeoutMs, // the exporter itself ends earlier, after its last retry
    });
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#state !== "open") return this.#drop(1, shuttingDown);
    const size = toSize(span);
    if (this.#spans >= this.#parts.settings.queueSpans || this.#bytes + size > queueBytes) {
      this.#isPaused = true;
      return this.#drop(1, this.#failure ?? "the queue is full");
    }
    this.#spans++;
    this.#bytes += size;
    runOutOfScope(() => this.#batches.onEnd(span));
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.#batches.shutdown();
  }

  /**
   * Sends everything that waits, and takes no more spans. If the last batch failed, the queue waits for nothing. Resolves to
   * the number of lost spans.
   */
  async close(ms: number): Promise<number> {
    const { exporter, totals } = this.#parts;
    const before = totals.droppedSpans;
    this.#state = "closing";
    // A batch that fails rejects the shutdown, while others are still being sent.
    const sent = this.#batches.shutdown().catch(() => exporter.forceFlush?.());
    await within(this.#failure === undefined ? ms : 0, sent, { onLate: () => {} });
    this.#state = "closed";
    if (this.#spans > 0) this.#drop(this.#spans, this.#failure ?? shuttingDown);
    return totals.droppedSpans - before;
  }

  #release(spans: readonly ReadableSpan[], { code, error }: ExportResult): void {
    if (this.#state === "closed") return; // counted as dropped
    this.#spans -= spans.length;
    for (const span of spans) this.#bytes -= toSize(span);
    this.#isPaused &&= this.#spans > this.#parts.settings.queueSpans / 2 || this.#bytes > queueBytes / 2;
    this.#failure = code === success ? undefined : toReason(error);
    if (this.#failure === undefined) this.#parts.totals.exportedSpans += spans.length;
    else this.#drop(spans.length, this.#failure);
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
const quietMs = 60_000;
const shuttingDown = "the server is shutting down";

/** Estimates the memory of a span in bytes: two for each character, and a number for its objects. */
function toSize({ name, status, attributes }: ReadableSpan): number {
  let characters = name.length + (status.message?.length ?? 0);
  for (const key in attributes) {
    const value = attributes[key];
    characters += key.length;
    if (typeof value === "string") characters += value.length;
    else if (Array.isArray(value)) for (const one of value) characters += String(one).length;
  }
  return 500 + 2 * characters;
}

/** Returns a short reason, without the URL and the response body. */
function toReason(error: (Error & { code?: number | string }) | undefined): string {
  const { code, message = "unknown" } = error ?? {};
  return typeof code === "number" ? `the response has status ${code}` : (code ?? message);
}
