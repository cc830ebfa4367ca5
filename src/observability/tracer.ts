import { randomBytes } from "node:crypto";
import { attempt } from "../core/attempt.ts";
import { toErrorMessage } from "../core/error.ts";
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
import type { OtelSdk } from "./otel.ts";
import { createRedactor } from "./redact.ts";

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
  /** Resolves when an SDK that is already registered receives spans. */
  readonly ready: Promise<unknown>;
  /** Returns the entity of a recent trace. */
  rootOf(traceId: string | undefined): Entity | undefined;
  /** Calls the listener with the span events of one turn of the event loop. Returns a function that removes it. */
  listen(listener: SpanListener): () => void;
}

export function createTraces(): Traces {
  const listeners = new Set<SpanListener>();
  const found = findSdk();
  const redact = createRedactor(process.env);
  const shorten = (text: string): string => redact.text(text.slice(0, mostLetters));
  const clean = (attributes: Attributes = {}): Record<string, Attributes[string]> => {
    const entries = Object.entries(attributes).filter(([, value]) => value !== undefined);
    return Object.fromEntries(
      entries.map(([name, value]) => [name, typeof value === "string" ? shorten(value) : value]),
    );
  };
  /** The entities of recent traces, by trace id. */
  const roots = new Map<string, Entity>();
  let notices: SpanNotice[] = [];

  function tell(type: SpanEvent["type"], span: SpanView): void {
    if (listeners.size === 0) return;
    const copy = { ...span, attributes: { ...span.attributes } };
    const event: SpanEvent = { type, timestamp: new Date().toISOString(), span: copy };
    // Listeners are called after the current work, once per turn of the event loop.
    if (notices.push({ event, root: roots.get(span.traceId) }) === 1) runOutOfScope(() => setImmediate(flush));
    if (notices.length >= mostNotices) flush();
  }

  function flush(): void {
    const all = notices;
    notices = [];
    for (const listener of all.length > 0 ? listeners : []) attempt(() => listener(all));
  }

  function know(traceId: string, attributes: Attributes): void {
    const entity = roots.has(traceId) ? undefined : toEntity(attributes);
    if (entity) roots.set(traceId, entity);
    if (roots.size > mostRoots) roots.delete(roots.keys().next().value!);
  }

  function start(options: SpanOptions, sdk: OtelSdk | undefined): Span {
    const { name, kind, links } = options;
    const parent = options.parent ?? currentSpan() ?? sdk?.active();
    const attributes = clean(options.attributes);
    // An error in the SDK of the application must not affect the traced work.
    const theirs = sdk && attempt(() => sdk.start({ name, kind, links, parent, attributes }));
    const traceId = theirs?.traceId ?? parent?.traceId ?? randomBytes(16).toString("hex");
    const spanId = theirs?.spanId ?? randomBytes(8).toString("hex");
    // Without an SDK, the flag of the caller is passed on.
    const sampled = theirs ? theirs.sampled : parent?.sampled;
    know(traceId, attributes);
    const startTime = new Date().toISOString();
    const view = {
      traceId,
      spanId,
      parentSpanId: parent?.spanId,
      name,
      kind,
      startTime,
      attributes,
      links,
      events: [],
    };
    tell("span:start", { ...view, status: { code: "unset" } });
    let isOpen = true;
    return {
      ...toSpanIds(traceId, spanId, sampled),
      set(more) {
        const cleaned = clean(more);
        Object.assign(attributes, cleaned);
        attempt(() => theirs?.set(cleaned));
      },
      end(error) {
        if (!isOpen) return;
        isOpen = false;
        const message = shorten(toErrorMessage(error));
        attempt(() => theirs?.end(error === undefined ? undefined : message));
        const status = error === undefined ? ({ code: "ok" } as const) : ({ code: "error", message } as const);
        tell("span:end", { ...view, endTime: new Date().toISOString(), status });
      },
      enter: (run) => (theirs ? theirs.enter(run) : run()),
    };
  }

  return {
    ready: found.ready,
    tracer: {
      isOn: () => listeners.size > 0 || found.get() !== undefined,
      start(options) {
        const sdk = found.get();
        return sdk || listeners.size > 0 ? start(options(), sdk) : undefined;
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
const mostRoots = 10_000;
/** The most span events in a batch. A full batch is delivered at once. */
const mostNotices = 10_000;
/** The longest string attribute, in characters. */
const mostLetters = 4_096;

function toEntity({ "entity.type": type, "entity.id": id }: Attributes): Entity | undefined {
  return typeof type === "string" && typeof id === "string" && id.length <= 256 ? { type, id } : undefined;
}
