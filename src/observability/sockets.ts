import type { Peer } from "crossws";
import { defineSocket, toMessage, type SocketRoute } from "../sockets/socket.ts";
import { defaultLimit, LogQuery, toMatcher } from "./filter.ts";
import type { Logs } from "./logs.ts";
import { toReader } from "./reader.ts";
import type { LogEntry } from "./record.ts";

/** `/ws/logs`: the newest records that match, then each one as it is written. */
export function logSocket(logs: Logs, { socketBufferBytes }: { socketBufferBytes: number }): SocketRoute {
  return defineSocket({
    path: "/ws/logs",
    summary: "The log: the newest records that match, then each one as it is written",
    query: LogQuery,
    connect(peer, { query, identity }) {
      const matches = toMatcher(query);
      const read = toReader({ identity, filter: query });
      const newest = logs.ring.newest(matches, query.limit ?? defaultLimit).map(read);
      peer.send(`{"type":"LOGS_SNAPSHOT","success":true,"data":[${fitting(newest, socketBufferBytes / 2).join(",")}]}`);
      const reader = new SocketReader(peer, logs, {
        matches,
        read,
        mostBytes: Math.min(65_536, socketBufferBytes / 2),
      });
      return {
        message: (text) => void peer.send(answer(text)),
        drain: () => reader.goOn(),
        close: () => reader.close(),
      };
    },
  });
}

/** Of many long records, the newest that one message may hold. */
function fitting(texts: readonly string[], bytes: number): readonly string[] {
  let from = texts.length;
  for (let left = bytes; from > 0 && left >= texts[from - 1]!.length; from--) left -= texts[from - 1]!.length;
  return texts.slice(from);
}

function answer(text: string): string {
  try {
    const { type } = (JSON.parse(text) ?? {}) as { type?: unknown };
    if (type === "PING") return JSON.stringify({ type: "PONG", success: true });
    return toError('expected { "type": "PING" }');
  } catch {
    return toError("expected JSON");
  }
}
const toError = (error: string): string => JSON.stringify({ type: "ERROR", success: false, error });

interface SocketReaderOptions {
  readonly matches: (entry: LogEntry) => boolean;
  readonly read: (entry: LogEntry) => string;
  /** What may wait in the socket. What follows waits in the ring, for all readers once. */
  readonly mostBytes: number;
}

/** Sends the records that come, in order. A reader that is slow is sent what the ring still holds, and told what it missed. */
class SocketReader {
  readonly #peer: Peer;
  readonly #logs: Logs;
  readonly #options: SocketReaderOptions;
  /** The first record that was not looked at. */
  #next: number;
  /** How many from there on match. */
  #behind = 0;
  readonly close: () => void;

  constructor(peer: Peer, logs: Logs, options: SocketReaderOptions) {
    this.#peer = peer;
    this.#logs = logs;
    this.#options = options;
    this.#next = logs.ring.next;
    this.close = logs.listen((entry) => this.#hear(entry));
  }

  #hear(entry: LogEntry): void {
    if (this.#options.matches(entry)) this.#behind++;
    this.goOn();
  }

  goOn(): void {
    const { ring } = this.#logs;
    const { matches, read, mostBytes } = this.#options;
    if (this.#behind > 0 && this.#next < ring.oldest && this.#isReady(mostBytes)) this.#skip();
    while (this.#behind > 0 && this.#isReady(mostBytes)) {
      const entry = ring.get(this.#next++);
      if (!entry || !matches(entry)) continue;
      this.#behind--;
      this.#peer.send(`{"type":"LOG","success":true,"data":${read(entry)}}`);
    }
    if (this.#behind === 0) this.#next = ring.next;
  }

  /** Some have left the ring unseen. */
  #skip(): void {
    const { ring } = this.#logs;
    let left = 0;
    for (let seq = ring.oldest; seq < ring.next; seq++) if (this.#options.matches(ring.get(seq)!)) left++;
    const count = this.#behind - left;
    if (count > 0) this.#peer.send(toMessage("DROPPED", { count }));
    this.#behind = left;
    this.#next = ring.oldest;
  }

  #isReady(mostBytes: number): boolean {
    return (this.#peer.websocket.bufferedAmount ?? 0) <= mostBytes;
  }
}
