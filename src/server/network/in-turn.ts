import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Listener } from "./listener.ts";

/** Max requests of one connection that wait for the response before them. A client that sends more is cut. */
const maxWaiting = 100;

type Exchange = [req: IncomingMessage, res: ServerResponse];

/**
 * Handles the requests of a connection one after another. Node would handle pipelined requests concurrently, and buffer all
 * of their responses for a client that does not read the first one.
 */
export function inTurn(listener: Listener): Listener {
  /** The requests that wait, by connection. A connection without a request in progress has no entry. */
  const waiting = new WeakMap<Socket, Exchange[]>();

  function start(socket: Socket, queue: Exchange[], [req, res]: Exchange): void {
    res.once("close", () => {
      const next = queue.shift();
      if (!next) waiting.delete(socket);
      else if (!socket.destroyed) start(socket, queue, next);
    });
    listener(req, res);
  }

  return (req, res) => {
    const { socket } = req;
    const queue = waiting.get(socket);
    if (queue && queue.push([req, res]) > maxWaiting) socket.destroy();
    if (queue) return;
    const empty: Exchange[] = [];
    waiting.set(socket, empty);
    start(socket, empty, [req, res]);
  };
}
