import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";

/**
 * Sends a request and reads nothing of its response. Returns the local port. The connection is dropped at the end of the
 * test.
 */
export async function leaveUnread(port: number, request: string): Promise<number> {
  return (await send(port, request)).localPort!;
}

function send(port: number, request: string): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = connect(port, "127.0.0.1", () => {
    socket.write(request);
    resolve(socket);
  });
  socket.pause();
  socket.on("error", reject); // after the promise has settled: the server has cut the connection
  onTestFinished(() => void socket.destroy());
  return promise;
}

/** Reads a response slowly, but without a long pause. Returns the number of bytes until the server closes. */
export async function readSlowly(port: number, request: string): Promise<number> {
  const socket = await send(port, request);
  let bytes = 0;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    await sleep(20);
  }
  return bytes;
}

export const toGet = (path: string, ...headers: string[]): string =>
  [`GET ${path} HTTP/1.1`, "Host: localhost", ...headers, "", ""].join("\r\n");
