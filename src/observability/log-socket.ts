import { defineSocket, type SocketRoute } from "../sockets/socket.ts";
import { defaultLimit, LogQuery, toFinder, toReader } from "./filter.ts";
import type { Logs } from "./logs.ts";
import { answerPing, SocketReader } from "./socket-reader.ts";
import type { LogEntry } from "./record.ts";
import { fitting } from "./ring.ts";

/** The route `/ws/logs`: the newest matching records, then each new one as it is logged. */
export function logSocket(logs: Logs, { socketBufferBytes }: { socketBufferBytes: number }): SocketRoute {
  return defineSocket({
    path: "/ws/logs",
    summary: "Log stream: the newest matching records, then new ones as they are logged",
    description: "A WebSocket, with the filters of `GET /api/logs`.",
    action: "log.read",
    query: LogQuery,
    connect(peer, { query, identity }) {
      const matches = toFinder({ identity, filter: query });
      const read = toReader({ identity, filter: query });
      const newest = fitting(logs.ring.newest(matches, query.limit ?? defaultLimit), socketBufferBytes / 2);
      peer.send(`{"type":"LOGS_SNAPSHOT","success":true,"data":[${newest.map(read).join(",")}]}`);
      const toText = (entry: LogEntry): string => `{"type":"LOG","success":true,"data":${read(entry)}}`;
      const reader = new SocketReader(peer, logs, { matches, toText, maxBytes: socketBufferBytes / 2 });
      return {
        message: (text) => void peer.send(answerPing(text)),
        drain: () => reader.resume(),
        close: () => reader.close(),
      };
    },
  });
}
