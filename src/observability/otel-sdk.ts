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
  type SpanContext,
  type TracerProvider,
} from "@opentelemetry/api";
import manifest from "../../package.json" with { type: "json" };
import { toSpanIds, type SpanIds } from "../core/trace.ts";
import { within } from "../core/clock.ts";
import type { CleanAttributes, OtelSdk } from "./otel.ts";

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };

interface OtelParts extends Pick<OtelSdk, "isPaused" | "flush"> {
  readonly clean: CleanAttributes;
  readonly provider: TracerProvider;
}

/** Creates our spans as spans of the application's SDK. */
export const createRegisteredSdk = (clean: CleanAttributes): OtelSdk =>
  createOtelSdk({
    clean,
    provider: trace.getTracerProvider(),
    isPaused: () => false,
    async flush(ms) {
      const flushed = findProvider().forceFlush?.();
      await within(ms, Promise.resolve(flushed), {
        onLate() {
          throw new Error("the OpenTelemetry SDK did not export them in time");
        },
      });
    },
  });

/** Creates our spans as spans of a provider. */
export function createOtelSdk({ clean, provider, isPaused, flush }: OtelParts): OtelSdk {
  const tracer = provider.getTracer("agentserve", manifest.version);
  const open = new Map<string, OtelSpan>();

  /** Returns the context of a parent. A parent that is not open in this process is referenced by its ids. */
  function toContext(parent: SpanIds | undefined): Context {
    if (!parent) return ROOT_CONTEXT;
    const known = open.get(parent.spanId);
    if (known) return trace.setSpan(ROOT_CONTEXT, known);
    return trace.setSpanContext(ROOT_CONTEXT, { ...toSpanContext(parent), isRemote: true });
  }

  return {
    active() {
      const active = trace.getSpanContext(context.active());
      return active && fromSpanContext(active);
    },
    start({ name, kind, parent, attributes, links = [] }) {
      const linked = links.map((ids) => ({ context: toSpanContext(ids) }));
      const options = { kind: kinds[kind], attributes: clean(attributes) as Theirs, links: linked };
      const span = tracer.startSpan(name, options, toContext(parent));
      const ids = fromSpanContext(span.spanContext());
      const { spanId } = ids;
      open.set(spanId, span);
      return {
        ...ids,
        set: (more) => void span.setAttributes(clean(more) as Theirs),
        end(error) {
          open.delete(spanId);
          if (error === undefined) span.setStatus({ code: SpanStatusCode.OK });
          else span.setStatus({ code: SpanStatusCode.ERROR, message: error });
          span.end();
        },
        enter: (run) => context.with(trace.setSpan(context.active(), span), run),
      };
    },
    isPaused,
    flush,
  };
}

/** A provider of the SDK. `forceFlush` is not part of the API. */
interface FlushableProvider {
  forceFlush?(): Promise<void>;
  getDelegate?(): FlushableProvider;
}

/** Returns the provider behind the proxy that the API has registered for it. */
function findProvider(): FlushableProvider {
  const provider = trace.getTracerProvider() as FlushableProvider;
  return provider.getDelegate?.() ?? provider;
}

// The SDK's sampler follows the parent's flag, unless the application has chosen another sampler.
const toSpanContext = ({ traceId, spanId, sampled }: SpanIds): SpanContext => ({
  traceId,
  spanId,
  traceFlags: sampled === false ? TraceFlags.NONE : TraceFlags.SAMPLED,
});
const fromSpanContext = ({ traceId, spanId, traceFlags }: SpanContext): SpanIds =>
  toSpanIds(traceId, spanId, (traceFlags & TraceFlags.SAMPLED) !== 0);
