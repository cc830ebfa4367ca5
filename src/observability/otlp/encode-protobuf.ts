import type { Attributes } from "../../core/trace.ts";
import type { CleanAttributes } from "../otel.ts";
import { ProtobufWriter } from "./protobuf-writer.ts";
import { kinds, sampledFlag, splitTime, statuses, type Batch, type SpanRecord } from "./span-record.ts";

/** Encodes a batch as an `ExportTraceServiceRequest`. The numbers are those of the fields in OTLP's .proto files. */
export function encodeProtobuf({ resource, scope, spans }: Batch, clean: CleanAttributes): Buffer {
  const out = new ProtobufWriter();
  out.message(1, () => {
    out.message(1, () => writeAttributes(out, 1, resource));
    out.message(2, () => {
      out.message(1, () => {
        out.string(1, scope.name);
        out.string(2, scope.version);
      });
      for (const span of spans) out.message(2, () => writeSpan(out, span, clean(span.attributes)));
    });
  });
  return out.finish();
}

function writeSpan(out: ProtobufWriter, span: SpanRecord, attributes: Attributes): void {
  const { traceId, spanId, parentSpanId, name, kind, start, end, links = [], error } = span;
  out.hex(1, traceId);
  out.hex(2, spanId);
  if (parentSpanId !== undefined) out.hex(4, parentSpanId);
  out.string(5, name);
  out.small(6, kinds[kind]);
  out.fixed64(7, toNanoseconds(start));
  out.fixed64(8, toNanoseconds(end));
  writeAttributes(out, 9, attributes);
  for (const link of links) {
    out.message(13, () => {
      out.hex(1, link.traceId);
      out.hex(2, link.spanId);
    });
  }
  out.message(15, () => {
    if (error !== undefined) out.string(2, error);
    out.small(3, error === undefined ? statuses.ok : statuses.error);
  });
  out.fixed32(16, sampledFlag);
}

function writeAttributes(out: ProtobufWriter, field: number, attributes: Attributes): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined) continue;
    out.message(field, () => {
      out.string(1, key);
      out.message(2, () => writeValue(out, value));
    });
  }
}

function writeValue(out: ProtobufWriter, value: NonNullable<Attributes[string]>): void {
  if (typeof value === "string") out.string(1, value);
  else if (typeof value === "boolean") out.small(2, Number(value));
  else if (Number.isSafeInteger(value)) out.int64(3, value as number);
  else if (typeof value === "number") out.double(4, value);
  else
    out.message(5, () => {
      for (const one of value) out.message(1, () => out.string(1, one));
    });
}

function toNanoseconds(ms: number): bigint {
  const { whole, nanoseconds } = splitTime(ms);
  return BigInt(whole) * 1_000_000n + BigInt(nanoseconds);
}
