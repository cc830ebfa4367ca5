import { busy, DetailedError, ServeError, shuttingDown, type ErrorFields } from "../core/error.ts";
import { within } from "../core/clock.ts";
import { createResponse, type Answer, type HeaderPairs } from "./envelope.ts";
import { EventAnswer, type EventFrames, type EventSink } from "./event-answer.ts";
import { pause } from "./turn-budget.ts";

/**
 * The return value of a handler that responds with events. The signal is aborted when the reader disconnects or the
 * stream ends.
 */
export class EventStream {
  readonly generate: (signal: AbortSignal) => AsyncGenerator<unknown> | Promise<AsyncGenerator<unknown>>;
  /** Headers in addition to `sseHeaders`. A 503 that replaces the first event during shutdown has them as well. */
  readonly headers: HeaderPairs;
  readonly options: EventStreamOptions;

  constructor(generate: EventStream["generate"], headers: HeaderPairs = [], options: EventStreamOptions = {}) {
    this.generate = generate;
    this.headers = headers;
    this.options = options;
  }
}
/** An event whose `id:` is not its `seq`. */
export class EventWithId {
  readonly event: unknown;
  /** A text without line breaks. */
  readonly id: string;

  constructor(event: unknown, id: string) {
    this.event = event;
    this.id = id;
  }
}
/** Yielded in place of the first event: the response is a 204 without a body, after which an `EventSource` stays closed. */
export const noContent: unique symbol = Symbol("noContent");

/** Yielded in place of an event: sent as a comment, which a client ignores. As the first one it begins the response. */
export const comment: unique symbol = Symbol("comment");

/** Yielded in place of the last event: the stream ends without its last frame. That tells the reader to ask for more. */
export const unfinished: unique symbol = Symbol("unfinished");

export interface EventStreamOptions {
  /** True to send `seq` as the event's `id:`. A reader can then resume with `Last-Event-ID`. @default false */
  readonly ids?: boolean;
  /** The data of the last frame, sent as is. @default no such frame */
  readonly last?: string;
  /** True if the events end when the server closes. Other streams are cut: readers can reconnect. @default false */
  readonly drains?: boolean;
  /**
   * True if the stream reads nothing of the config: it does not hold the version of the config under which it was opened.
   * @default false
   */
  readonly isDetached?: boolean;
  /** True if the response begins after a second, also without an event. Errors from then on end the stream. @default false */
  readonly beginsEarly?: boolean;
  /** The fields of the 503 that replaces the first event during shutdown. @default none */
  readonly fields?: ErrorFields;
}

export interface StreamsOptions {
  readonly sseStreams: number;
  /** Max open streams per named caller. @default no limit */
  readonly sseStreamsPerCaller?: number;
  /** Time after which a reader is disconnected if it does not read while an event is pending. */
  readonly sseStallMs: number;
  /** Idle time after which a comment line is sent, to keep proxies from closing the connection. @default 15000 */
  readonly heartbeatMs?: number;
  /** Called with an error thrown after the first event. The response is in progress by then: the stream can only end. */
  readonly report: (error: unknown) => void;
}
export interface Streams {
  /** Resolves with the first event. `gone` is aborted if the reader disconnects before it; `extra` are more headers. */
  open(stream: EventStream, gone: AbortSignal, extra?: HeaderPairs, caller?: string): Promise<Answer>;
  readonly size: number;
  /** Refuses new streams, and cuts all that do not drain. */
  close(): void;
}

export const sseHeaders: HeaderPairs = [
  ["content-type", "text/event-stream"],
  ["cache-control", "no-cache, no-transform"],
  ["x-accel-buffering", "no"],
];
const encoder = new TextEncoder();
/** Encodes an event as one frame. JSON escapes line breaks, and an id begins with a number: data cannot end the frame. */
function encode(value: unknown, ids = false): Uint8Array {
  const { event, id } = value instanceof EventWithId ? value : { event: value, id: toSeq(value) };
  const line = ids && id !== undefined ? `id: ${id}\n` : "";
  return encoder.encode(`${line}data: ${JSON.stringify(event ?? null)}\n\n`);
}
function toSeq(event: unknown): string | undefined {
  const { seq } = (event ?? {}) as { seq?: unknown };
  return Number.isSafeInteger(seq) && Number(seq) > 0 ? String(seq) : undefined;
}
/** The frame of an event, or the way in which the stream ends: `cut` is an end without the last frame. */
type Frame = Uint8Array | "end" | "cut";
function toFrame({ value, done }: IteratorResult<unknown>, ids: boolean | undefined): Frame {
  if (done || value === noContent) return "end";
  if (value === unfinished) return "cut";
  return value === comment ? heartbeat : encode(value, ids);
}
/** The time after which a response begins without an event. */
const beginMs = 1_000;
const heartbeat = encoder.encode(":\n\n");

interface OpenStreamOptions {
  /** The first frame. If it is a comment, `coming` is the first event. */
  readonly first: Frame;
  readonly coming: Promise<IteratorResult<unknown>> | undefined;
  readonly events: AsyncGenerator<unknown>;
  readonly options: EventStreamOptions;
  /** Tells the generator about the end of its stream. */
  readonly leave: () => void;
  readonly streams: Set<OpenStream>;
  readonly report: (error: unknown) => void;
}

/** A stream whose response is in progress. */
class OpenStream implements EventFrames {
  readonly #parts: OpenStreamOptions;
  #first: Frame | undefined;
  #coming: Promise<IteratorResult<unknown>> | undefined;
  #sink: EventSink | undefined;
  #touched = performance.now();

  constructor(parts: OpenStreamOptions) {
    this.#parts = parts;
    this.#first = parts.first;
    this.#coming = parts.coming;
    parts.streams.add(this);
  }

  get drains(): boolean {
    return this.#parts.options.drains === true;
  }
  get isOpen(): boolean {
    return this.#parts.streams.has(this);
  }

  begin(sink: EventSink): void {
    this.#sink = sink;
  }

  async pull(): Promise<void> {
    const { report, options } = this.#parts;
    try {
      await pause();
      const frame = this.#first ?? toFrame(await this.#next(), options.ids);
      this.#first = undefined;
      if (!this.isOpen) return;
      if (typeof frame !== "string") return this.#write(frame);
      if (frame === "end" && options.last !== undefined) this.#write(encoder.encode(`data: ${options.last}\n\n`));
    } catch (error) {
      report(error); // the events before it are sent
    }
    this.end();
  }

  #next(): Promise<IteratorResult<unknown>> {
    const next = this.#coming ?? this.#parts.events.next();
    this.#coming = undefined;
    return next;
  }

  #write(frame: Uint8Array): void {
    this.#sink?.write(frame);
    this.#touched = performance.now();
  }

  leave(): void {
    const { streams, leave, events, report } = this.#parts;
    if (!streams.delete(this)) return;
    leave(); // return() alone would wait for a pending next()
    void events.return(undefined).catch(report);
  }

  end(error?: Error): void {
    if (!this.isOpen) return;
    this.leave();
    this.#sink?.end(error);
  }

  /** Cuts off a reader that has stalled, and keeps a silent stream open. */
  sweep(now: number, { sseStallMs, heartbeatMs }: { sseStallMs: number; heartbeatMs: number }): void {
    const silentMs = now - this.#touched;
    if (!this.#sink?.isReady) {
      if (silentMs > sseStallMs) this.end(new Error("The reader stalled"));
    } else if (silentMs > heartbeatMs) this.#write(heartbeat);
  }
}

/** The open event streams of a server. They share one timer and are closed together. */
class OpenStreams implements Streams {
  readonly #settings: Required<StreamsOptions>;
  /** The number of open streams by caller. */
  readonly #callers = new Map<string, number>();
  readonly #starting = new Map<AbortController, EventStreamOptions>();
  readonly #streams = new Set<OpenStream>();
  readonly #timer: NodeJS.Timeout;
  #isClosed = false;

  constructor(settings: Required<StreamsOptions>) {
    const { heartbeatMs, sseStallMs } = settings;
    this.#settings = settings;
    this.#timer = setInterval(() => this.#sweep(), Math.min(1_000, heartbeatMs / 3, sseStallMs / 3)).unref();
  }

  get size(): number {
    return this.#streams.size;
  }

  async open(
    { generate, headers, options }: EventStream,
    gone: AbortSignal,
    extra: HeaderPairs = [],
    caller?: string,
  ): Promise<Answer> {
    if (this.#isClosed) throw shuttingDown();
    if (this.#streams.size + this.#starting.size >= this.#settings.sseStreams) throw busy("Too many open streams", 5);
    const { report } = this.#settings;
    const leaving = new AbortController();
    if (caller !== undefined) leaving.signal.addEventListener("abort", this.#count(caller));
    const leave = (): void => {
      this.#starting.delete(leaving); // even if the generator ignores the signal
      leaving.abort();
    };
    this.#starting.set(leaving, options);
    if (gone.aborted) leave(); // the client left while the body was read
    else gone.addEventListener("abort", leave, { once: true });
    try {
      const opening = generate(leaving.signal);
      const events = opening instanceof Promise ? await opening : opening;
      // Awaited before the headers are sent: an error up to here becomes a plain error response.
      const coming = events.next();
      const first = options.beginsEarly ? await within(beginMs, coming, { onLate: () => undefined }) : await coming;
      if (this.#isClosed && !options.drains) {
        void events.return(undefined).catch(report);
        throw options.fields ? new DetailedError(shuttingDown(), options.fields, headers) : shuttingDown(headers);
      }
      if (first?.value === noContent) {
        leave();
        return createResponse(null, { status: 204, headers: [...headers, ...extra] });
      }
      // Without an event, a comment begins the response.
      const begun = first ? { first: toFrame(first, options.ids), coming: undefined } : { first: heartbeat, coming };
      const stream = new OpenStream({ ...begun, events, options, leave, streams: this.#streams, report });
      return new EventAnswer([...sseHeaders, ...headers, ...extra], stream);
    } catch (error) {
      leave();
      throw error;
    } finally {
      this.#starting.delete(leaving);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const [stream, { drains }] of this.#starting) if (!drains) stream.abort();
    for (const stream of this.#streams) if (!stream.drains) stream.end();
  }

  /** Counts a stream of a caller. Returns a function that releases it. */
  #count(caller: string): () => void {
    const others = this.#callers.get(caller) ?? 0;
    if (others >= this.#settings.sseStreamsPerCaller)
      throw new ServeError(429, "Too many open streams of one caller", { headers: [["retry-after", "5"]] });
    this.#callers.set(caller, others + 1);
    return () => {
      const left = (this.#callers.get(caller) ?? 0) - 1;
      if (left > 0) this.#callers.set(caller, left);
      else this.#callers.delete(caller);
    };
  }

  #sweep(): void {
    if (this.#isClosed && this.#streams.size === 0) clearInterval(this.#timer);
    const now = performance.now();
    for (const stream of this.#streams) stream.sweep(now, this.#settings);
  }
}

export const createStreams = (settings: StreamsOptions): Streams =>
  new OpenStreams({ heartbeatMs: 15_000, sseStreamsPerCaller: Infinity, ...settings });
