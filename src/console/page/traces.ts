import { signal } from "@preact/signals";
import { openSocket } from "./server/socket.ts";

/** A span, as the server sends it. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTime: string;
  readonly endTime?: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status: { readonly code: "unset" | "ok" | "error"; readonly message?: string };
}
/** The spans of a trace that were seen, in the order of their starts. */
export interface Trace {
  readonly id: string;
  readonly spans: readonly Span[];
}

const maxTraces = 100;
const maxSpans = 500;

/** The newest traces since the first visit, newest first. */
export const traces = signal<readonly Trace[]>([]);
/** The number of spans that the server dropped because the page was too slow. */
export const dropped = signal(0);

let isListening = false;
/** Starts to listen. The server makes spans only for listeners, so this waits for the first visit. */
export function listenForSpans(): void {
  if (isListening) return;
  isListening = true;
  let fresh: Span[] = [];
  openSocket("/ws/observability", {
    onMessage({ type, data }) {
      if (type === "DROPPED") dropped.value += (data as { count: number }).count;
      if (type !== "OBSERVABILITY_EVENT") return;
      if (fresh.length === 0) {
        setTimeout(() => {
          traces.value = addSpans(traces.value, fresh);
          fresh = [];
        }, 100); // many spans are one change of the page
      }
      fresh.push((data as { span: Span }).span);
    },
  });
}

/** Adds spans to their traces. The end of a span replaces its start. */
function addSpans(before: readonly Trace[], fresh: readonly Span[]): readonly Trace[] {
  const byId = new Map(before.map((trace) => [trace.id, trace]));
  for (const span of fresh) {
    const { spans = [] } = byId.get(span.traceId) ?? {};
    const at = spans.findIndex(({ spanId }) => spanId === span.spanId);
    const next = at >= 0 ? spans.with(at, span) : spans.length < maxSpans ? [...spans, span] : spans;
    byId.set(span.traceId, { id: span.traceId, spans: next });
  }
  const known = new Set(before.map(({ id }) => id));
  const added = [...byId.values()].filter(({ id }) => !known.has(id)).toReversed();
  return [...added, ...before.map(({ id }) => byId.get(id)!)].slice(0, maxTraces); // every trace of before is in the map
}
