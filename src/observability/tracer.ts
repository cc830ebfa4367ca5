import { attempt } from "../core/attempt.ts";
import { toErrorMessage } from "../core/error.ts";
import type { Logger } from "../core/log.ts";
import type { Totals } from "../core/metrics.ts";
import { runOutOfScope } from "../core/scope.ts";
import {
  currentSpan,
  toSpanIds,
  type Attributes,
  type Span,
  type SpanIds,
  type SpanOptions,
  type Tracer,
} from "../core/trace.ts";
import { findSdk } from "./find-sdk.ts";
import type { CleanAttributes, OtelSdk } from "./otel.ts";
import { createRedactor } from "./redact.ts";
import { newSpanId, newTraceId } from "./span-ids.ts";

/** The subject of a trace: the first agent or workflow in it. */
export interface Entity {
  readonly type: string;
  readonly id: string;
}
/** A span as listeners see it. */
interface SpanView extends SpanIds {
  readonly parentSpanId?: string | undefined;
  readonly name: string;
  readonly kind: SpanOptions["kind"];
  readonly startTime: string;
  readonly endTime?: string | undefined;
  readonly attributes: Attributes;
  readonly status: { readonly code: "unset" | "ok" | "error"; readonly message?: string };
  readonly links?: readonly SpanIds[] | undefined;
  readonly events: readonly unknown[];
}
export interface SpanEvent {
  readonly type: "span:start" | "span:end";
  readonly timestamp: string;
  readonly span: SpanView;
}
interface SpanNotice {
  readonly event: SpanEvent;
  /** The entity of the trace. */
  readonly root: Entity | undefined;
}
type SpanListener = (notices: readonly SpanNotice[]) => void;

export interface Traces {
  readonly tracer: Tracer;
  /** Resolves when an SDK that is already registered, or our own export, receives spans. */
  readonly ready: Promise<unknown>;
  /** Exports the spans that have ended, within a time. Never rejects. */
  flush(ms: number): Promise<void>;
  /** Returns the entity of a recent trace. */
  rootOf(traceId: string | undefined): Entity | undefined;
  /** Calls the listener with the span events of one turn of the event loop. Returns a function that removes it. */
  listen(listener: SpanListener): () => void;
}

interface TracesOptions {
  readonly logger: Pick<Logger, "warn">;
  readonly totals: Totals;
}

export function createTraces({ logger, totals }: TracesOptions): Traces {
  const listeners = new Set<SpanListener>();
  const redact = createRedactor(process.env);
  const shorten = (text: string): string => redact.text(text.slice(0, maxLetters)).toWellFormed();
  const clean: CleanAttributes = (attributes = {}) => {
    // JSON has no NaN: a collector would refuse the whole batch.
    const entries = Object.entries(attributes).filter(([, value]) => value !== undefined && !Number.isNaN(value));
    return Object.fromEntries(
      entries.map(([name, value]) => [name, typeof value === "string" ? shorten(value) : value]),
    );
  };
  const found = findSdk({ clean, logger, totals });
  /** The entities of recent traces, by trace id. */
  const roots = new Map<string, Entity>();
  let notices: SpanNotice[] = [];

  function tell(type: SpanEvent["type"], span: SpanView): void {
    const copy = { ...span, attributes: clean(span.attributes) };
    const event: SpanEvent = { type, timestamp: new Date().toISOString(), span: copy };
    // Listeners are called after the current work, once per turn of the event loop.
    if (notices.push({ event, root: roots.get(span.traceId) }) === 1) runOutOfScope(() => setImmediate(flush));
    if (notices.length >= maxNotices) flush();
  }

  function flush(): void {
    const all = notices;
    notices = [];
    for (const listener of all.length > 0 ? listeners : []) attempt(() => listener(all));
  }

  function know(traceId: string, attributes: Attributes): void {
    const entity = roots.has(traceId) ? undefined : toEntity(attributes);
    if (entity) roots.set(traceId, entity);
    if (roots.size > maxRoots) roots.delete(roots.keys().next().value!);
  }

  function start(options: SpanOptions, sdk: OtelSdk | undefined): Span {
    const { name, kind, links } = options;
    const parent = options.parent ?? currentSpan() ?? sdk?.active();
    const attributes: Record<string, Attributes[string]> = { ...options.attributes };
    // An error in the SDK of the application must not affect the traced work.
    const theirs = sdk && attempt(() => sdk.start({ name, kind, links, parent, attributes }));
    const traceId = theirs?.traceId ?? parent?.traceId ?? newTraceId();
    const spanId = theirs?.spanId ?? newSpanId();
    // Without an SDK, the flag of the caller is passed on.
    const sampled = theirs ? theirs.sampled : parent?.sampled;
    if (listeners.size > 0) know(traceId, attributes);
    const startedAt = Date.now();
    function toView(status: SpanView["status"], endTime?: string): SpanView {
      const startTime = new Date(startedAt).toISOString();
      const { spanId: parentSpanId } = parent ?? {};
      return { traceId, spanId, parentSpanId, name, kind, startTime, endTime, attributes, status, links, events: [] };
    }
    if (listeners.size > 0) tell("span:start", toView({ code: "unset" }));
    let isOpen = true;
    return {
      ...toSpanIds(traceId, spanId, sampled),
      set(more) {
        Object.assign(attributes, more);
        attempt(() => theirs?.set(more));
      },
      end(error) {
        if (!isOpen) return;
        isOpen = false;
        const message = error === undefined ? undefined : shorten(toErrorMessage(error));
        attempt(() => theirs?.end(message));
        if (listeners.size === 0) return;
        const status = message === undefined ? ({ code: "ok" } as const) : ({ code: "error", message } as const);
        tell("span:end", toView(status, new Date().toISOString()));
      },
      enter: (run) => (theirs ? theirs.enter(run) : run()),
    };
  }

  return {
    ready: found.ready,
    async flush(ms) {
      await found.flush(ms).catch((error: unknown) => {
        logger.warn("Spans were lost at shutdown", { reason: toErrorMessage(error).slice(0, 200) });
      });
    },
    tracer: {
      isOn: () => listeners.size > 0 || found.get()?.isPaused() === false,
      start(options) {
        const sdk = found.get();
        if (listeners.size > 0 || sdk?.isPaused() === false) return start(options(), sdk);
        if (sdk) totals.droppedSpans++;
        return undefined;
      },
    },
    rootOf: (traceId) => roots.get(traceId ?? ""),
    listen(listener) {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0) roots.clear(); // only filters of listeners read them
      };
    },
  };
}

/** The number of recent traces whose entity is stored. */
const maxRoots = 10_000;
/** Max span events in a batch. A full batch is delivered at once. */
const maxNotices = 10_000;
/** The longest string attribute, in characters. */
const maxLetters = 4_096;

function toEntity({ "entity.type": type, "entity.id": id }: Attributes): Entity | undefined {
  return typeof type === "string" && typeof id === "string" && id.length <= 256 ? { type, id } : undefined;
}
