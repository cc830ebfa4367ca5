import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { sendJson } from "../../src/backends/restate/client/http-calls.ts";

/** A server that resets the connection of a request if `isReset` says so. `count` is the number of the request on it. */
async function serve(isReset: (count: number) => boolean): Promise<{ url: string; connections: () => number }> {
  const counts = new Map<Socket, number>();
  const server: Server = createServer((request, response) => {
    const count = (counts.get(request.socket) ?? 0) + 1;
    counts.set(request.socket, count);
    if (isReset(count)) request.socket.resetAndDestroy();
    else response.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  const { port } = server.address() as AddressInfo; // it listens on a port
  return { url: `http://127.0.0.1:${port}`, connections: () => counts.size };
}
const send = (url: string) => sendJson(url, { method: "POST", body: "{}", signal: AbortSignal.timeout(20_000) });

it("sends a call to Restate again if its kept connection was closed meanwhile", async () => {
  const { url, connections } = await serve((count) => count === 2);
  expect(await send(url)).toEqual({ status: 200, text: "{}" });
  expect(await send(url)).toEqual({ status: 200, text: "{}" });
  expect(connections()).toBe(2);
});

it("fails a call to Restate whose new connection is closed, and does not send it again", async () => {
  const { url, connections } = await serve(() => true);
  await expect(send(url)).rejects.toMatchObject({ code: "ECONNRESET" });
  expect(connections()).toBe(1);
});

it("sends calls to Restate one after the other on one connection", async () => {
  const { url, connections } = await serve(() => false);
  for (let n = 0; n < 5; n++) await send(url);
  expect(connections()).toBe(1);
});
