import { FastResponse } from "srvx";
import { busy, DetailedError, shuttingDown, type ErrorFields } from "../core/error.ts";
import { within } from "../core/within.ts";
import type { HeaderPairs } from "./envelope.ts";

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

/** Yielded in place of the last event: the stream ends without its last frame, so that its reader knows that there is more. */
export const unfinished: unique symbol = Symbol("unfinished");

export interface EventStreamOptions {
  /** True to send `seq` as the `id:` of an event, so that a reader can resume with `Last-Event-ID`. @default false */
  readonly ids?: boolean;
  /** The data of the last frame, sent as is. @default no such frame */
  readonly last?: string;
  /** True if the stream ends by itself when the server closes. Others are cut: readers can reconnect. @default false */
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
  /** Time after which a reader is disconnected if it does not read while an event is pending. */
  readonly sseStallMs: number;
  /** Idle time after which a comment line is sent, to keep proxies from closing the connection. @default 15000 */
  readonly heartbeatMs?: number;
  /** Called with an error thrown after the first event. The response has begun by then, so the stream can only end. */
  readonly report: (error: unknown) => void;
}
export interface Streams {
  /** `gone` is aborted if the reader disconnects before the first event. */
  open(stream: EventStream, gone: AbortSignal): Promise<Response>;
  readonly size: number;
  /** Refuses new streams, and ends every stream that does not end by itself. */
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
/** Returns the frame of the next event; undefined at the end. */
function toFrame({ value, done }: IteratorResult<unknown>, ids: boolean | undefined): Uint8Array | undefined {
  if (done || value === noContent || value === unfinished) return undefined;
  return value === comment ? heartbeat : encode(value, ids);
}
/** The time after which a response begins without an event. */
const beginMs = 1_000;
const heartbeat = encoder.encode(":\n\n");

// Streams share a time budget per turn of the event loop. A generator whose next event is always ready would otherwise
// starve all other work.
const turnMs = 5;
let until: number | undefined;
let nextTurn: Promise<void> | undefined;

/** Returns a promise of the next turn once the budget of this turn is used up. */
function pause(): Promise<void> | undefined {
  const now = performance.now();
  if (until === undefined) {
    until = now + turnMs;
    nextTurn = new Promise((resolve) => {
      setImmediate(() => {
        until = undefined;
        resolve();
      });
    });
  }
  return now < until ? undefined : nextTurn;
}

interface OpenStream {
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  touched: number;
  readonly drains: boolean;
  readonly end: (error?: unknown) => void;
}

/** The open event streams of a server. They share one timer and are closed together. */
export function createStreams({ sseStreams, sseStallMs, heartbeatMs = 15_000, report }: StreamsOptions): Streams {
  const starting = new Map<AbortController, EventStreamOptions>();
  const streams = new Set<OpenStream>();
  const timer = setInterval(sweep, Math.min(1_000, heartbeatMs / 3, sseStallMs / 3)).unref();
  let closed = false;

  async function open({ generate, headers, options }: EventStream, gone: AbortSignal): Promise<Response> {
    if (closed) throw shuttingDown();
    if (streams.size + starting.size >= sseStreams) {
      throw busy("Too many open streams", 5);
    }
    const leaving = new AbortController();
    const leave = (): void => {
      starting.delete(leaving); // even if the generator ignores the signal
      leaving.abort();
    };
    starting.set(leaving, options);
    if (gone.aborted) leave(); // the client left while the body was read
    else gone.addEventListener("abort", leave, { once: true });
    try {
      const opening = generate(leaving.signal);
      const events = opening instanceof Promise ? await opening : opening;
      // Awaited before the headers are sent: an error up to here becomes a plain error response.
      const coming = events.next();
      const first = options.beginsEarly ? await within(beginMs, coming, { onLate: () => undefined }) : await coming;
      const isCut = closed && !options.drains;
      if (isCut) void events.return(undefined).catch(report);
      if (isCut)
        throw options.fields ? new DetailedError(shuttingDown(), options.fields, headers) : shuttingDown(headers);
      if (first?.value === noContent) {
        leave();
        return new FastResponse(null, { status: 204, headers });
      }
      const body = toBody(first ? { frame: toFrame(first, options.ids) } : { coming }, options, events, leave);
      return new FastResponse(body, { headers: [...sseHeaders, ...headers] });
    } catch (error) {
      leave();
      throw error;
    } finally {
      starting.delete(leaving);
    }
  }

  /** The body pulls an event only after the socket has accepted the last one: a stalled reader holds one event here. */
  function toBody(
    first: { frame: Uint8Array | undefined } | { coming: Promise<IteratorResult<unknown>> },
    { ids, last, drains = false }: EventStreamOptions,
    events: AsyncGenerator<unknown>,
    leave: () => void,
  ): ReadableStream {
    // Without an event, a comment begins the response.
    let next = "frame" in first ? first.frame : heartbeat;
    let coming = "coming" in first ? first.coming : undefined;
    let self: OpenStream;
    function forget(): boolean {
      if (!streams.delete(self)) return false;
      leave(); // return() alone would wait for a pending next()
      void events.return(undefined).catch(report);
      return true;
    }
    return new ReadableStream<Uint8Array>({
      start(controller) {
        self = { controller, touched: performance.now(), drains, end };
        streams.add(self);
        function end(error?: unknown): void {
          if (!forget()) return;
          if (error) controller.error(error);
          else controller.close();
        }
      },
      async pull(controller) {
        try {
          await pause();
          const result = next ? undefined : await (coming ?? events.next());
          const frame = next ?? toFrame(result!, ids);
          if (!next) coming = undefined;
          next = undefined;
          if (!streams.has(self)) return;
          if (!frame && last !== undefined && result?.value !== unfinished)
            controller.enqueue(encoder.encode(`data: ${last}\n\n`));
          if (!frame) return self.end();
          controller.enqueue(frame);
          self.touched = performance.now();
        } catch (error) {
          report(error);
          self.end(); // controller.error() would also discard the events that are still buffered
        }
      },
      cancel: () => void forget(),
    });
  }

  function sweep(): void {
    if (closed && streams.size === 0) clearInterval(timer);
    const now = performance.now();
    for (const stream of streams) {
      const silent = now - stream.touched;
      const wantsMore = (stream.controller.desiredSize ?? 0) > 0; // the reader waits for the generator
      if (!wantsMore && silent > sseStallMs) stream.end(new Error("The reader stalled"));
      if (wantsMore && silent > heartbeatMs) {
        stream.controller.enqueue(heartbeat);
        stream.touched = now;
      }
    }
  }

  return {
    open,
    get size() {
      return streams.size;
    },
    close() {
      closed = true;
      for (const [stream, { drains }] of starting) if (!drains) stream.abort();
      for (const stream of streams) if (!stream.drains) stream.end();
    },
  };
}
