import { currentScope, runInScope, type LogIds } from "./scope.ts";

/** A span, as it is named by others. */
export interface SpanIds {
  readonly traceId: string;
  readonly spanId: string;
}
export type Attributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** Something that takes time, in OpenTelemetry's terms. */
export interface Span extends SpanIds {
  set(attributes: Attributes): void;
  /** Ends it; what comes after is ignored. */
  end(error?: unknown): void;
  /** Runs code in which the application's own instrumentation finds this span. */
  enter<T>(run: () => T): T;
}
export interface SpanOptions {
  readonly name: string;
  readonly kind: "server" | "client" | "internal";
  /** @default the span that the current scope is in */
  readonly parent?: SpanIds | undefined;
  readonly links?: readonly SpanIds[] | undefined;
  readonly attributes?: Attributes | undefined;
}
export interface Tracer {
  /** Whether somebody listens. */
  isOn(): boolean;
  /** Undefined while nobody listens: next to nothing is paid then. */
  start(options: () => SpanOptions): Span | undefined;
}

/** What is logged or begun in here belongs to the span. */
export function runInSpan<T>(span: Span | undefined, run: () => T, ids: LogIds | undefined = currentScope()): T {
  if (!span) return ids ? runInScope(ids, run) : run();
  const { traceId, spanId } = span;
  return span.enter(() => runInScope({ ...ids, traceId, spanId }, run));
}

/** The span that the current scope is in. */
export function currentSpan(): SpanIds | undefined {
  const { traceId, spanId } = currentScope() ?? {};
  return traceId !== undefined && spanId !== undefined ? { traceId, spanId } : undefined;
}

/** W3C Trace Context, as it comes and goes in the header `traceparent`. */
export function fromTraceparent(header: string | null): SpanIds | undefined {
  const [, traceId, spanId] =
    /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}(?:-.*)?$/.exec(header ?? "") ?? [];
  if (!traceId || !spanId || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId };
}
export const toTraceparent = ({ traceId, spanId }: SpanIds): string => `00-${traceId}-${spanId}-01`;
