import type { Attributes, SpanIds, SpanOptions } from "../core/trace.ts";

/** A span of the OpenTelemetry SDK that the application has registered. */
interface SdkSpan extends SpanIds {
  set(attributes: Attributes): void;
  /** With what is wrong, if anything is. */
  end(error: string | undefined): void;
  /** Runs code in which the application's own instrumentation finds this span. */
  enter<T>(run: () => T): T;
}
export interface OtelSdk {
  /** The span that the application's own code is in. */
  active(): SpanIds | undefined;
  start(options: SpanOptions): SdkSpan;
}
