import type { Peer } from "crossws";
import { toMessage } from "../sockets/socket.ts";
import type { Logs } from "./logs.ts";
import type { LogEntry } from "./record.ts";
import type { Ring } from "./ring.ts";

export interface SocketReaderOptions {
  readonly matches: (entry: LogEntry) => boolean;
  readonly toText: (entry: LogEntry) => string;
  /** What may wait in the socket. What follows waits in the ring, for all readers once. */
  readonly mostBytes: number;
}

/** Sends the records that come, in order. A reader that is slow is sent what the ring still holds, and told what has left it. */
export class SocketReader {
  readonly #peer: Peer;
  readonly #ring: Ring;
  readonly #options: SocketReaderOptions;
  readonly #mostBytes: number;
  /** The first record that was not looked at. */
  #next: number;
  readonly close: () => void;

  constructor(peer: Peer, { ring, listen }: Logs, options: SocketReaderOptions) {
    this.#peer = peer;
    this.#ring = ring;
    this.#options = options;
    this.#mostBytes = Math.min(options.mostBytes, 65_536);
    this.#next = ring.next;
    this.close = listen(() => this.goOn());
  }

  goOn(): void {
    const { oldest, next } = this.#ring;
    const { matches, toText } = this.#options;
    if (!this.#isReady()) return;
    const count = oldest - this.#next;
    if (count > 0) {
      this.#peer.send(toMessage("DROPPED", { count }));
      this.#next = oldest;
    }
    while (this.#next < next && this.#isReady()) {
      const entry = this.#ring.get(this.#next++);
      if (entry && matches(entry)) this.#peer.send(toText(entry));
    }
  }

  #isReady(): boolean {
    return (this.#peer.websocket.bufferedAmount ?? 0) <= this.#mostBytes;
  }
}
