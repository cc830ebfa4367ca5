import type { Attributes, SpanIds, SpanOptions } from "../core/trace.ts";

/** A span of an exporter: of the registered OpenTelemetry SDK, or of our export. */
interface SdkSpan extends SpanIds {
  set(attributes: Attributes): void;
  /** Ends the span, with a message if it failed. */
  end(error: string | undefined): void;
  /** Runs a function with this span as the active span of the application's own instrumentation. */
  enter<T>(run: () => T): T;
}
export interface OtelSdk {
  /** Returns the active span of the application's own code. */
  active(): SpanIds | undefined;
  start(options: SpanOptions): SdkSpan;
  /** Returns true while spans would only be dropped. None should be created then: each costs some microseconds. */
  isPaused(): boolean;
  /** Exports the finished spans within a time. Rejects if that fails. */
  flush(ms: number): Promise<void>;
}

/** Redacts and shortens the attributes of a span. */
export type CleanAttributes = (attributes: Attributes | undefined) => Record<string, Attributes[string]>;
