import type { Attributes, SpanIds } from "../../core/trace.ts";
import type { CleanAttributes } from "../otel.ts";
import { kinds, sampledFlag, splitTime, statuses, type Batch, type SpanRecord } from "./span-record.ts";

/** Encodes a batch as OTLP/JSON: the names of the .proto files, ids in hex, 64-bit numbers as text. */
export function encodeJson({ resource, scope, spans }: Batch, clean: CleanAttributes): Buffer {
  const scopeSpans = [{ scope, spans: spans.map((span) => toJson(span, clean(span.attributes))) }];
  const batch = { resourceSpans: [{ resource: { attributes: toPairs(resource) }, scopeSpans }] };
  return Buffer.from(JSON.stringify(batch));
}

function toJson(span: SpanRecord, attributes: Attributes): object {
  const { traceId, spanId, parentSpanId, name, kind, start, end, links, error } = span;
  return {
    traceId,
    spanId,
    parentSpanId,
    name: name.toWellFormed(),
    kind: kinds[kind],
    startTimeUnixNano: toNanoseconds(start),
    endTimeUnixNano: toNanoseconds(end),
    attributes: toPairs(attributes),
    links: links?.map(({ traceId: trace, spanId: linked }: SpanIds) => ({ traceId: trace, spanId: linked })),
    status: error === undefined ? { code: statuses.ok } : { message: error.toWellFormed(), code: statuses.error },
    flags: sampledFlag,
  };
}

function toPairs(attributes: Attributes): object[] {
  const entries = Object.entries(attributes);
  return entries.flatMap(([key, value]) =>
    value === undefined ? [] : [{ key: key.toWellFormed(), value: toValue(value) }],
  );
}

function toValue(value: NonNullable<Attributes[string]>): object {
  if (typeof value === "string") return { stringValue: value.toWellFormed() };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value !== "number") return { arrayValue: { values: value.map((one) => toValue(one)) } };
  if (Number.isSafeInteger(value)) return { intValue: String(value) };
  return { doubleValue: Number.isFinite(value) ? value : String(value) }; // JSON has no NaN and no Infinity
}

function toNanoseconds(ms: number): string {
  const { whole, nanoseconds } = splitTime(ms);
  return `${whole}${String(nanoseconds).padStart(6, "0")}`;
}
