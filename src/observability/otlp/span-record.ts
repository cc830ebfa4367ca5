import type { Attributes, SpanIds, SpanOptions } from "../../core/trace.ts";

/** A span that has ended, as it waits for its export. */
export interface SpanRecord extends SpanIds {
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: SpanOptions["kind"];
  /** Milliseconds since 1970, with fractions. */
  readonly start: number;
  readonly end: number;
  /** As they were set. They are redacted when the span is encoded: a span that is dropped should cost little. */
  readonly attributes: Attributes;
  readonly links: readonly SpanIds[] | undefined;
  /** The message, if the span has failed. */
  readonly error: string | undefined;
}

/** The number of a kind in OTLP. */
export const kinds = { internal: 1, server: 2, client: 3 } as const;
/** The number of a status in OTLP. */
export const statuses = { ok: 1, error: 2 } as const;
/** The flag of a span that is sampled. */
export const sampledFlag = 1;

/** A batch of spans and their origin. */
export interface Batch {
  readonly resource: Attributes;
  readonly scope: { readonly name: string; readonly version: string };
  readonly spans: readonly SpanRecord[];
}

/** Estimates the memory of a span in bytes: two for each character, and a number for its objects. */
export function toSize({ attributes, error, name }: SpanRecord): number {
  let characters = name.length + (error?.length ?? 0);
  for (const key in attributes) {
    const value = attributes[key];
    characters += key.length;
    if (typeof value === "string") characters += value.length;
    else if (typeof value === "object") for (const one of value) characters += one.length;
  }
  return 500 + 2 * characters;
}

/** Returns whole milliseconds, and the nanoseconds of the rest. */
export function splitTime(ms: number): { readonly whole: number; readonly nanoseconds: number } {
  const whole = Math.floor(ms);
  return { whole, nanoseconds: Math.min(999_999, Math.round((ms - whole) * 1e6)) };
}
