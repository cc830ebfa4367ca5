import { currentScope, runInScope, type Scope } from "./scope.ts";

/** The ids of a span, for a reference from another span or a log record. */
export interface SpanIds {
  readonly traceId: string;
  readonly spanId: string;
  /** False if the trace is not recorded: its caller or the SDK has decided so. @default true */
  readonly sampled?: boolean | undefined;
}
export type Attributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** A span, as defined by OpenTelemetry. */
export interface Span extends SpanIds {
  set(attributes: Attributes): void;
  /** Ends the span. Only the first call has an effect. */
  end(error?: unknown): void;
  /** Runs a function with this span as the active span of the application's own instrumentation. */
  enter<T>(run: () => T): T;
}
export interface SpanOptions {
  readonly name: string;
  readonly kind: "server" | "client" | "internal";
  /** @default the span of the current scope */
  readonly parent?: SpanIds | undefined;
  readonly links?: readonly SpanIds[] | undefined;
  readonly attributes?: Attributes | undefined;
}
export interface Tracer {
  /** Returns true while spans have a consumer: an OpenTelemetry SDK or a listener. */
  isOn(): boolean;
  /**
   * Starts a span. Without a consumer it returns undefined and does not call `options`, so that tracing costs almost
   * nothing.
   */
  start(options: () => SpanOptions): Span | undefined;
}

/** Runs a function inside a span: records logged and spans started in it belong to this span. */
export function runInSpan<T>(span: Span | undefined, run: () => T, ids: Scope | undefined = currentScope()): T {
  if (!span) return ids ? runInScope(ids, run) : run();
  const { traceId, spanId, sampled } = span;
  return span.enter(() => runInScope({ ...ids, traceId, spanId, sampled }, run));
}

export function currentSpan(): SpanIds | undefined {
  const { traceId, spanId, sampled } = currentScope() ?? {};
  return traceId !== undefined && spanId !== undefined ? toSpanIds(traceId, spanId, sampled) : undefined;
}

/** Parses a W3C `traceparent` header. Returns undefined if it is missing or invalid. */
export function fromTraceparent(header: string | null): SpanIds | undefined {
  const [, traceId, spanId, flags = ""] =
    /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-.*)?$/.exec(header ?? "") ?? [];
  if (!traceId || !spanId || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return toSpanIds(traceId, spanId, (Number.parseInt(flags, 16) & 1) === 1);
}
export const toTraceparent = ({ traceId, spanId, sampled }: SpanIds): string =>
  `00-${traceId}-${spanId}-${sampled === false ? "00" : "01"}`;

/** Returns the ids, with `sampled` only if it is false: they are journaled with each execution. */
export const toSpanIds = (traceId: string, spanId: string, sampled: boolean | undefined): SpanIds =>
  sampled === false ? { traceId, spanId, sampled } : { traceId, spanId };
