import { FastResponse } from "srvx";
import { busy, shuttingDown } from "../core/error.ts";
import type { HeaderPairs } from "./envelope.ts";

/** What a handler returns to answer with events. The signal is aborted when the reader leaves or the server closes. */
export class EventStream {
  readonly generate: (signal: AbortSignal) => AsyncGenerator<unknown>;
  /** Besides those of every stream. A 503 in place of the first event carries them, too. */
  readonly headers: HeaderPairs;
  readonly options: EventStreamOptions;

  constructor(generate: EventStream["generate"], headers: HeaderPairs = [], options: EventStreamOptions = {}) {
    this.generate = generate;
    this.headers = headers;
    this.options = options;
  }
}
export interface EventStreamOptions {
  /** Whether a `seq` goes before its event as `id:`, for readers who come back with `Last-Event-ID`. */
  readonly ids?: boolean;
  /** What the last frame holds, as it is. */
  readonly last?: string;
  /** Whether it ends by itself when the server closes. Others are cut: their readers can come back. */
  readonly drains?: boolean;
}

export interface StreamsOptions {
  readonly sseStreams: number;
  /** How long a reader may take nothing while an event waits for it. */
  readonly sseStallMs: number;
  /** After how much silence a comment line keeps proxies awake. @default 15000 */
  readonly heartbeatMs?: number;
  /** Hears what a generator threw after its first event: the response has begun, so the stream can only end. */
  readonly report: (error: unknown) => void;
}
export interface Streams {
  /** `gone` is aborted when the reader leaves before the first event. */
  open(stream: EventStream, gone: AbortSignal): Promise<Response>;
  readonly size: number;
  /** Takes no more, and ends every stream that does not end by itself. */
  close(): void;
}

export const sseHeaders: HeaderPairs = [
  ["content-type", "text/event-stream"],
  ["cache-control", "no-cache, no-transform"],
  ["x-accel-buffering", "no"],
];
const encoder = new TextEncoder();
function encode(event: unknown, ids = false): Uint8Array {
  const { seq } = (event ?? {}) as { seq?: number };
  const id = ids && seq !== undefined ? `id: ${seq}\n` : "";
  return encoder.encode(`${id}data: ${JSON.stringify(event ?? null)}\n\n`);
}
const heartbeat = encoder.encode(":\n\n");

// A generator that always has its next event at hand would keep everybody else waiting.
const turnMs = 5;
let until: number | undefined;
let nextTurn: Promise<void> | undefined;

/** What to wait for when all streams together have had enough of this turn of the event loop. */
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

/** Every open event stream of a server: one timer for all of them, and one way to end them all. */
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
      starting.delete(leaving); // even if the generator does not listen
      leaving.abort();
    };
    starting.set(leaving, options);
    if (gone.aborted) leave(); // while its body was read
    else gone.addEventListener("abort", leave, { once: true });
    const events = generate(leaving.signal);
    try {
      // Awaited before the headers go: what throws until here is a plain error response.
      const first = await events.next();
      const isCut = closed && !options.drains;
      if (isCut) void events.return(undefined).catch(report);
      if (isCut) throw shuttingDown(headers);
      const frame = first.done ? undefined : encode(first.value, options.ids);
      return new FastResponse(toBody(frame, options, events, leave), { headers: [...sseHeaders, ...headers] });
    } catch (error) {
      leave();
      throw error;
    } finally {
      starting.delete(leaving);
    }
  }

  /** The next event is asked for only when the socket has taken the last, so a reader who stops holds one event here. */
  function toBody(
    first: Uint8Array | undefined,
    { ids, last, drains = false }: EventStreamOptions,
    events: AsyncGenerator<unknown>,
    leave: () => void,
  ): ReadableStream {
    let next = first;
    let self: OpenStream;
    function forget(): boolean {
      if (!streams.delete(self)) return false;
      leave(); // return() alone waits for a generator that is itself waiting
      void events.return(undefined).catch(report);
      return true;
    }
    return new ReadableStream<Uint8Array>({
      start(controller) {
        self = { controller, touched: Date.now(), drains, end };
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
          const frame =
            next ?? (await events.next().then(({ value, done }) => (done ? undefined : encode(value, ids))));
          next = undefined;
          if (!streams.has(self)) return;
          if (!frame && last !== undefined) controller.enqueue(encoder.encode(`data: ${last}\n\n`));
          if (!frame) return self.end();
          controller.enqueue(frame);
          self.touched = Date.now();
        } catch (error) {
          report(error);
          self.end(); // an error here would also destroy the events that are still on their way
        }
      },
      cancel: () => void forget(),
    });
  }

  function sweep(): void {
    if (closed && streams.size === 0) clearInterval(timer);
    const now = Date.now();
    for (const stream of streams) {
      const silent = now - stream.touched;
      const wantsMore = (stream.controller.desiredSize ?? 0) > 0; // the reader has taken all: it waits for the generator
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
