import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { withBounds } from "../harness/bounds.ts";
import { describeServer, type TestServer } from "../harness/server.ts";
import { eventually, until, within } from "../harness/waiting.ts";

const size = 32 * 1_048_576; // more than the kernel buffers of both sides
const large = "x".repeat(size);
const small = "y".repeat(4_096);
const responseStallMs = 400;

const handled = { now: 0, most: 0, all: 0 };
let endless: "running" | "cancelled" = "running";

const config = withBounds(
  { responseStallMs, maxConnections: 40 },
  {
    configureApp: (app: any) =>
      app
        .get("/large", () => large)
        .get("/small", () => small)
        .get("/busy", async () => {
          handled.all++;
          handled.most = Math.max(handled.most, ++handled.now);
          await sleep(1);
          handled.now--;
          return small;
        })
        .get("/endless", () => {
          const chunk = new Uint8Array(65_536);
          const body = new ReadableStream({
            pull: (controller) => controller.enqueue(chunk),
            cancel: () => void (endless = "cancelled"),
          });
          return new Response(body);
        })
        .get("/slow", async () => {
          await sleep(responseStallMs * 3);
          return small;
        }),
  },
);

/** Opens a connection whose bytes are not read until the test reads them. */
async function open(server: TestServer, text = ""): Promise<Socket> {
  const { port } = new URL(server.url);
  const socket = connect(Number(port), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.pause();
  if (text) socket.write(text);
  return socket;
}
const ask = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
const isIdle = (server: TestServer) => (): boolean => server.snapshot.holders().size === 0;

async function readAll(socket: Socket): Promise<number> {
  let bytes = 0;
  socket.on("data", (chunk) => (bytes += chunk.length));
  const closed = once(socket, "close");
  socket.resume();
  await within(closed, "the end of the connection");
  return bytes;
}

describeServer("a response that is not read", { config, only: ["dev", "start"] }, (server) => {
  it("cuts a response that is not read after responseStallMs", async () => {
    const socket = await open(server, ask("/large"));
    await until(() => !isIdle(server)(), "the request");
    await until(isIdle(server), "the end of the response");
    expect(await readAll(socket)).toBeLessThan(size);
  });

  it("cuts the stream of a custom route that is not read", async () => {
    endless = "running";
    await open(server, ask("/endless"));
    await until(() => endless === "cancelled", "the end of the stream");
    await until(isIdle(server), "the end of the response");
  });

  it("cuts a response that is not read while its client continues to send", async () => {
    const socket = await open(server, ask("/large"));
    await until(() => !isIdle(server)(), "the request");
    socket.write("GET /small HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
    const sending = setInterval(() => socket.write("x"), responseStallMs / 10);
    onTestFinished(() => clearInterval(sending));
    await until(isIdle(server), "the end of the response");
  });

  it("does not cut a response whose client reads a little now and then", async () => {
    const socket = await open(server, ask("/large"));
    let [bytes, wanted] = [0, 0];
    socket.on("data", (chunk) => {
      bytes += chunk.length;
      if (bytes >= wanted) socket.pause();
    });
    // Three times as long as a response may stall. The kernel asks for more bytes only when it has room for many.
    for (let turn = 0; turn < 6; turn++, await sleep(responseStallMs / 2)) {
      wanted = bytes + 3 * 1_048_576;
      socket.resume();
      await until(
        () => bytes >= wanted,
        () => `${wanted} bytes: ${bytes} so far`,
      );
    }
    expect(isIdle(server)()).toBe(false);
    socket.removeAllListeners("data").on("data", (chunk) => (bytes += chunk.length));
    socket.resume();
    await until(
      () => bytes > size,
      () => `the whole response: ${bytes} bytes so far`,
    );
  });

  it("does not count the time in which the server has nothing to send for responseStallMs", async () => {
    const response = await server.send("/slow", {});
    expect(await response.text()).toBe(small);
  });
});

describeServer("many requests on one connection", { config, only: ["dev", "start"] }, (server) => {
  it("answers pipelined requests one after another, in their order", async () => {
    handled.most = 0;
    const socket = await open(server, ask("/busy").repeat(40));
    let text = "";
    socket.setEncoding("latin1").on("data", (chunk) => (text += chunk));
    socket.resume();
    await until(() => text.split("HTTP/1.1 200").length === 41, "40 responses");
    expect(handled.most).toBe(1);
  });

  it("closes a connection with too many pipelined requests", async () => {
    const socket = await open(server, ask("/busy").repeat(400));
    const bytes = await readAll(socket);
    expect(bytes).toBeLessThan(400 * small.length);
    await until(isIdle(server), "the end of the requests");
  });

  it("handles no pipelined request while the response before is not read", async () => {
    handled.all = 0;
    await open(server, ask("/large") + ask("/busy").repeat(40));
    await until(() => !isIdle(server)(), "the request");
    await until(isIdle(server), "the end of the response");
    expect(handled.all).toBe(0);
  });
});

describeServer("connections over maxConnections", { config, only: ["dev", "start"] }, (server) => {
  it("closes connections over maxConnections, and accepts new ones when others have closed", async () => {
    const opened = await Promise.all(Array.from({ length: 60 }, () => open(server, ask("/small"))));
    const answered = await Promise.all(
      opened.map(async (socket) => {
        const got = Promise.withResolvers<boolean>();
        socket.once("data", () => got.resolve(true)).once("close", () => got.resolve(false));
        socket.resume();
        return within(got.promise);
      }),
    );
    expect(answered.filter(Boolean).length).toBeLessThanOrEqual(40);
    expect(answered).toContain(false);
    expect(answered).toContain(true);
    expect(server.logs).toContainEqual({
      level: "warn",
      message: expect.stringContaining("maxConnections"),
      data: expect.anything(),
    });
    for (const socket of opened) socket.destroy();
    await eventually(async () => expect((await server.send("/small", {})).status).toBe(200));
  });
});
