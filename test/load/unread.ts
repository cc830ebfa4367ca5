import { connect } from "node:net";
import { onTestFinished } from "vitest";

/**
 * Sends a request and reads nothing of its response. Returns the local port. The connection is dropped at the end of the
 * test.
 */
export function leaveUnread(port: number, request: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const socket = connect(port, "127.0.0.1", () => {
    socket.write(request);
    resolve(socket.localPort!);
  });
  socket.pause();
  socket.on("error", reject); // after the promise has settled: the server has cut the connection
  onTestFinished(() => void socket.destroy());
  return promise;
}

export const toGet = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
