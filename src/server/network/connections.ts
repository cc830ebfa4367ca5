import type { Server } from "node:http";
import type { Socket } from "node:net";

export interface Connections {
  /** Returns the connections that carry a request. */
  busy(): Iterable<Socket>;
  /** Closes every connection as soon as it carries no request. */
  close(): void;
}

/**
 * Tracks the connections that carry a request: a shutdown waits only for those. `closeIdleConnections()` spares a
 * connection that has not sent a byte yet, and browsers open such connections in advance.
 */
export function trackConnections(server: Server): Connections {
  const requests = new Map<Socket, number>();
  let closing = false;

  server.on("connection", (socket: Socket) => {
    requests.set(socket, 0);
    socket.once("close", () => requests.delete(socket));
  });
  server.on("request", ({ socket }, res) => {
    add(socket, 1);
    res.once("close", () => add(socket, -1));
  });
  server.on("upgrade", ({ socket }) => requests.delete(socket)); // the upgrade handler closes it

  function add(socket: Socket, change: number): void {
    const count = requests.get(socket);
    if (count === undefined) return;
    requests.set(socket, count + change);
    if (closing && count + change === 0) socket.destroySoon();
  }

  return {
    *busy() {
      for (const [socket, count] of requests) if (count > 0) yield socket;
    },
    close() {
      closing = true;
      for (const [socket, count] of requests) if (count === 0) socket.destroySoon();
    },
  };
}
