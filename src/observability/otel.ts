import type { Attributes, SpanIds, SpanOptions } from "../core/trace.ts";

/** A span of the OpenTelemetry SDK that the application has registered. */
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
}
