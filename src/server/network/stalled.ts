import type { Socket } from "node:net";

/**
 * Cuts connections whose client takes no byte of a response for `stallMs`. Time is counted in checks, not by the clock:
 * a server that was busy itself has not given the client a chance to read.
 */
export function cutStalled(busy: () => Iterable<Socket>, stallMs: number): () => void {
  const everyMs = Math.min(1_000, stallMs / 4);
  const max = Math.ceil(stallMs / everyMs);
  const seen = new WeakMap<Socket, { taken: number; checks: number }>();
  const timer = setInterval(() => {
    for (const socket of busy()) {
      // Nothing to send: the client waits for the server.
      if (socket.writableLength === 0) {
        seen.delete(socket);
        continue;
      }
      const taken = countTaken(socket);
      const last = seen.get(socket);
      if (last?.taken !== taken) seen.set(socket, { taken, checks: 0 });
      else if (++last.checks >= max) socket.destroy();
    }
  }, everyMs).unref();
  return () => clearInterval(timer);
}

/**
 * Returns the number of bytes that the kernel has accepted. `bytesWritten` alone counts a large chunk when its first
 * byte is sent. Node's own socket time-out reads the same internal property.
 */
function countTaken(socket: Socket & { _handle?: { bytesWritten: number; writeQueueSize: number } | null }): number {
  const { _handle: handle } = socket;
  return handle ? handle.bytesWritten - handle.writeQueueSize : 0;
}
