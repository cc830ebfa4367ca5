import type { ServerResponse } from "node:http";
import { createResponse, DirectAnswer, type HeaderPairs } from "./envelope.ts";

/** The receiving end of an event stream. */
export interface EventSink {
  /** False while the last frame has not been accepted. */
  readonly isReady: boolean;
  write(frame: Uint8Array): void;
  /** Ends the response. With an error, the reader is cut off. */
  end(error?: Error): void;
}
/** The frames of an event stream. */
export interface EventFrames {
  readonly isOpen: boolean;
  /** Begins the response. Until the stream ends, a sink may also get frames that it has not pulled. */
  begin(sink: EventSink): void;
  /** Writes the next frame into the sink, or ends it. Never rejects. */
  pull(): Promise<void>;
  /** Called when the reader disconnects. */
  leave(): void;
}

/**
 * A response with events. A Node host gets the frames written to its socket: a `ReadableStream` between them would take 4 KB
 * for each open stream.
 */
export class EventAnswer extends DirectAnswer {
  readonly status = 200;
  readonly headers: HeaderPairs;
  readonly #frames: EventFrames;

  constructor(headers: HeaderPairs, frames: EventFrames) {
    super();
    this.headers = headers;
    this.#frames = frames;
  }

  toResponse(): Response {
    const frames = this.#frames;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => frames.begin(new WebSink(controller)),
      pull: () => frames.pull(),
      cancel: () => frames.leave(),
    });
    return createResponse(body, { headers: this.headers });
  }

  send(res: ServerResponse): void {
    const frames = this.#frames;
    if (res.destroyed) return frames.leave();
    res.writeHead(this.status, this.headers.flat());
    void sendFrames(frames, new NodeSink(res, frames));
  }
}

/** Pulls a frame only after the socket has accepted the last one. */
async function sendFrames(frames: EventFrames, sink: NodeSink): Promise<void> {
  while (frames.isOpen) {
    await frames.pull();
    if (!sink.isReady) await sink.drained();
  }
}

class NodeSink implements EventSink {
  readonly #res: ServerResponse;
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(res: ServerResponse, frames: EventFrames) {
    this.#res = res;
    res.on("drain", () => this.#drain());
    res.once("close", () => {
      frames.leave();
      this.#drain();
    });
    frames.begin(this);
  }

  get isReady(): boolean {
    return !this.#drained;
  }
  write(frame: Uint8Array): void {
    if (!this.#res.write(frame)) this.#drained ??= Promise.withResolvers();
  }
  end(error?: Error): void {
    if (error) this.#res.destroy();
    else this.#res.end();
  }
  /** Resolves when the socket has accepted everything, or is closed. */
  async drained(): Promise<void> {
    await this.#drained?.promise;
  }
  #drain(): void {
    this.#drained?.resolve();
    this.#drained = undefined;
  }
}

class WebSink implements EventSink {
  readonly #controller: ReadableStreamDefaultController<Uint8Array>;

  constructor(controller: ReadableStreamDefaultController<Uint8Array>) {
    this.#controller = controller;
  }

  get isReady(): boolean {
    return (this.#controller.desiredSize ?? 0) > 0;
  }
  write(frame: Uint8Array): void {
    this.#controller.enqueue(frame);
  }
  end(error?: Error): void {
    if (error) this.#controller.error(error);
    else this.#controller.close();
  }
}
