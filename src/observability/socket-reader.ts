import type { Peer } from "crossws";
import { toObject, tryParseJson } from "../core/json.ts";
import { toMessage } from "../sockets/socket.ts";
import type { Logs } from "./logs.ts";
import type { LogEntry } from "./record.ts";
import type { Ring } from "./ring.ts";

export interface SocketReaderOptions {
  readonly matches: (entry: LogEntry) => boolean;
  readonly toText: (entry: LogEntry) => string;
  /** Max bytes to buffer in the socket. Further records wait in the ring, which all readers share. */
  readonly maxBytes: number;
}

/** Sends new records in order. A slow reader gets the records still in the ring, and the count of evicted ones. */
export class SocketReader {
  readonly #peer: Peer;
  readonly #ring: Ring;
  readonly #onDropped: Logs["onDropped"];
  readonly #options: SocketReaderOptions;
  readonly #maxBytes: number;
  /** The first unsent record. */
  #next: number;
  /** The number of matching records from `#next` to `#seen`. */
  #behind = 0;
  #seen: number;
  #again: NodeJS.Timeout | undefined;
  readonly #stop: () => void;

  constructor(peer: Peer, { ring, onDropped, listen }: Logs, options: SocketReaderOptions) {
    this.#peer = peer;
    this.#ring = ring;
    this.#onDropped = onDropped;
    this.#options = options;
    this.#maxBytes = Math.min(options.maxBytes, 65_536);
    this.#next = this.#seen = ring.next;
    this.#stop = listen(() => this.resume());
  }

  close(): void {
    this.#stop();
    clearTimeout(this.#again);
  }

  resume(): void {
    this.#countNew();
    if (this.#isReady()) this.#reportEvicted();
    while (this.#behind > 0 && this.#next < this.#seen && this.#isReady()) {
      const entry = this.#ring.get(this.#next++);
      if (!entry || !this.#options.matches(entry)) continue;
      this.#behind--;
      this.#peer.send(this.#options.toText(entry));
    }
    // The result of `matches` may change: the entity of an evicted trace is unknown. So the count may be too high.
    if (this.#next >= this.#seen) this.#behind = 0;
    if (this.#behind === 0) this.#next = this.#seen;
    // A socket emits "drain" only after its buffer was full, so a timer retries as well.
    else this.#again ??= setTimeout(() => ((this.#again = undefined), this.resume()), 25).unref();
  }

  /** Counts the new records that match. Includes records that were evicted in the same turn and cannot be checked. */
  #countNew(): void {
    const { oldest, next } = this.#ring;
    if (this.#seen < oldest) this.#behind += oldest - this.#seen;
    this.#behind += this.#countFrom(Math.max(this.#seen, oldest), next);
    this.#seen = next;
  }

  /** Reports the number of records that were evicted before they were sent. */
  #reportEvicted(): void {
    const { oldest } = this.#ring;
    if (this.#behind === 0 || this.#next >= oldest) return;
    const left = this.#countFrom(oldest, this.#seen);
    const count = this.#behind - left;
    if (count > 0) {
      this.#peer.send(toMessage("DROPPED", { count }));
      this.#onDropped(count);
    }
    this.#behind = left;
    this.#next = oldest;
  }

  #countFrom(from: number, to: number): number {
    let count = 0;
    for (let seq = from; seq < to; seq++) {
      const entry = this.#ring.get(seq);
      if (entry && this.#options.matches(entry)) count++;
    }
    return count;
  }

  #isReady(): boolean {
    return (this.#peer.websocket.bufferedAmount ?? 0) <= this.#maxBytes;
  }
}

/** Returns the response of a send-only socket to a message. The only valid message is a ping. */
export function answerPing(text: string): string {
  const message = tryParseJson(text);
  if (message === undefined) return toError("expected JSON");
  if (toObject(message)["type"] === "PING") return JSON.stringify({ type: "PONG", success: true });
  return toError('expected { "type": "PING" }');
}

const toError = (error: string): string => JSON.stringify({ type: "ERROR", success: false, error });
