import { randomFillSync } from "node:crypto";
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
import { findSdk, type SdkFinder } from "./find-sdk.ts";
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
  /** Resolves when a registered SDK or our own export receives spans. */
  readonly ready: Promise<unknown>;
  /** Exports the finished spans within a time. Never rejects. */
  flush(ms: number): Promise<void>;
  /** Returns the entity of a recent trace. */
  rootOf(traceId: string | undefined): Entity | undefined;
  /** Calls the listener once per turn of the event loop, with its span events. Returns a function that removes it. */
  listen(listener: SpanListener): () => void;
}

interface TracesOptions {
  readonly logger: Pick<Logger, "warn">;
  readonly totals: Totals;
}

export const createTraces = (options: TracesOptions): Traces => new LiveTraces(options);

/** The spans of a server. They are only created for an SDK, our export or a listener. */
class LiveTraces implements Traces {
  readonly #options: TracesOptions;
  readonly #listeners = new Set<SpanListener>();
  readonly #redact = createRedactor(process.env);
  /** The entities of recent traces, by trace id. */
  readonly #roots = new Map<string, Entity>();
  readonly #found: SdkFinder;
  #notices: SpanNotice[] = [];
  readonly tracer: Tracer = {
    isOn: () => this.#isOn(this.#found.get()),
    start: (options) => {
      const sdk = this.#found.get();
      if (this.#isOn(sdk)) return this.#start(options(), sdk);
      if (sdk) this.#options.totals.droppedSpans++;
      return undefined;
    },
  };

  constructor(options: TracesOptions) {
    this.#options = options;
    this.#found = findSdk({ ...options, clean: (attributes) => this.#clean(attributes) });
  }

  get ready(): Promise<unknown> {
    return this.#found.ready;
  }

  async flush(ms: number): Promise<void> {
    await this.#found.flush(ms).catch((error: unknown) => {
      this.#options.logger.warn("Spans were lost at shutdown", { reason: toErrorMessage(error).slice(0, 200) });
    });
  }

  rootOf(traceId: string | undefined): Entity | undefined {
    return this.#roots.get(traceId ?? "");
  }

  listen(listener: SpanListener): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#roots.clear(); // only filters of listeners read them
    };
  }

  #isOn(sdk: OtelSdk | undefined): boolean {
    return this.#listeners.size > 0 || sdk?.isPaused() === false;
  }

  #shorten(text: string): string {
    return this.#redact.text(text.slice(0, maxLetters)).toWellFormed();
  }

  #clean(attributes: Attributes = {}): Record<string, Attributes[string]> {
    // JSON has no NaN: a collector would refuse the whole batch.
    const entries = Object.entries(attributes).filter(([, value]) => value !== undefined && !Number.isNaN(value));
    return Object.fromEntries(
      entries.map(([name, value]) => [name, typeof value === "string" ? this.#shorten(value) : value]),
    );
  }

  #notify(type: SpanEvent["type"], span: SpanView): void {
    const copy = { ...span, attributes: this.#clean(span.attributes) };
    const event: SpanEvent = { type, timestamp: new Date().toISOString(), span: copy };
    // Listeners are called after the current work, once per turn of the event loop.
    const count = this.#notices.push({ event, root: this.#roots.get(span.traceId) });
    if (count === 1) runOutOfScope(() => setImmediate(() => this.#deliver()));
    if (count >= maxNotices) this.#deliver();
  }

  #deliver(): void {
    const all = this.#notices;
    this.#notices = [];
    for (const listener of all.length > 0 ? this.#listeners : []) attempt(() => listener(all));
  }

  #rememberEntity(traceId: string, attributes: Attributes): void {
    const entity = this.#roots.has(traceId) ? undefined : toEntity(attributes);
    if (entity) this.#roots.set(traceId, entity);
    const [oldest] = this.#roots.size > maxRoots ? this.#roots.keys() : [];
    if (oldest !== undefined) this.#roots.delete(oldest);
  }

  #start(options: SpanOptions, sdk: OtelSdk | undefined): Span {
    const { name, kind, links } = options;
    const parent = options.parent ?? currentSpan() ?? sdk?.active();
    const attributes: Record<string, Attributes[string]> = { ...options.attributes };
    // An error in the SDK of the application must not affect the traced work.
    const theirs = sdk && attempt(() => sdk.start({ name, kind, links, parent, attributes }));
    const traceId = theirs?.traceId ?? parent?.traceId ?? randomHex(16);
    const spanId = theirs?.spanId ?? randomHex(8);
    // Without an SDK, the flag of the caller is passed on.
    const sampled = theirs ? theirs.sampled : parent?.sampled;
    const startedAt = Date.now();
    const notify = (type: SpanEvent["type"], status: SpanView["status"]): void => {
      if (this.#listeners.size === 0) return;
      const startTime = new Date(startedAt).toISOString();
      const endTime = type === "span:end" ? new Date().toISOString() : undefined;
      const ids = { traceId, spanId, parentSpanId: parent?.spanId };
      this.#notify(type, { ...ids, name, kind, startTime, endTime, attributes, status, links, events: [] });
    };
    if (this.#listeners.size > 0) this.#rememberEntity(traceId, attributes);
    notify("span:start", { code: "unset" });
    let isOpen = true;
    return {
      ...toSpanIds(traceId, spanId, sampled),
      set(more) {
        Object.assign(attributes, more);
        attempt(() => theirs?.set(more));
      },
      end: (error) => {
        if (!isOpen) return;
        isOpen = false;
        const message = error === undefined ? undefined : this.#shorten(toErrorMessage(error));
        attempt(() => theirs?.end(message));
        notify("span:end", message === undefined ? { code: "ok" } : { code: "error", message });
      },
      enter: (run) => (theirs ? theirs.enter(run) : run()),
    };
  }
}

/** Max recent traces whose entity is stored. */
const maxRoots = 10_000;
/** Max span events in a batch. A full batch is delivered at once. */
const maxNotices = 10_000;
/** Max characters of a string attribute. */
const maxLetters = 4_096;

function toEntity({ "entity.type": type, "entity.id": id }: Attributes): Entity | undefined {
  return typeof type === "string" && typeof id === "string" && id.length <= 256 ? { type, id } : undefined;
}

/** Random bytes for many ids: a call of the random generator for each id would cost a microsecond. */
const pool = Buffer.alloc(4_096);
let at = pool.length;

function randomHex(bytes: number): string {
  if (at + bytes > pool.length) {
    randomFillSync(pool);
    at = 0;
  }
  const from = at;
  at += bytes;
  return pool.toString("hex", from, at);
}
