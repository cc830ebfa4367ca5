import {
  context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes as Theirs, // the same type, but with mutable arrays
  type Context,
  type Span as OtelSpan,
} from "@opentelemetry/api";
import manifest from "../../package.json" with { type: "json" };
import type { SpanIds } from "../core/trace.ts";
import type { OtelSdk } from "./otel.ts";

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };

/** Creates our spans as spans of the SDK that the application has registered. */
export function createOtelSdk(): OtelSdk {
  const tracer = trace.getTracer("agentserve", manifest.version);
  const open = new Map<string, OtelSpan>();

  /** Returns the context of a parent. A parent that is not open in this process is referenced by its ids. */
  function toContext(parent: SpanIds | undefined): Context {
    if (!parent) return ROOT_CONTEXT;
    const known = open.get(parent.spanId);
    if (known) return trace.setSpan(ROOT_CONTEXT, known);
    return trace.setSpanContext(ROOT_CONTEXT, { ...parent, traceFlags: TraceFlags.SAMPLED, isRemote: true });
  }

  return {
    active() {
      const { traceId, spanId } = trace.getSpanContext(context.active()) ?? {};
      return traceId && spanId ? { traceId, spanId } : undefined;
    },
    start({ name, kind, parent, attributes = {}, links = [] }) {
      const linked = links.map((ids) => ({ context: { ...ids, traceFlags: TraceFlags.SAMPLED } }));
      const options = { kind: kinds[kind], attributes: attributes as Theirs, links: linked };
      const span = tracer.startSpan(name, options, toContext(parent));
      const { traceId, spanId } = span.spanContext();
      open.set(spanId, span);
      return {
        traceId,
        spanId,
        set: (more) => void span.setAttributes(more as Theirs),
        end(error) {
          open.delete(spanId);
          if (error === undefined) span.setStatus({ code: SpanStatusCode.OK });
          else span.setStatus({ code: SpanStatusCode.ERROR, message: error });
          span.end();
        },
        enter: (run) => context.with(trace.setSpan(context.active(), span), run),
      };
    },
  };
}
