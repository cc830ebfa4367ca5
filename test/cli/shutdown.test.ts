import { connect } from "node:net";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { run } from "../harness/cli.ts";
import { openSocket } from "../harness/server.ts";

describe.each(["dev", "start"])("SIGTERM with an open SSE and an open WebSocket (%s)", (mode) => {
  /** A server of its own, a reader who waits for the next event, a socket, and connections that do nothing. */
  async function setUp() {
    const child = run(process.execPath, ["test/fixtures/host.ts", mode]);
    const [base] = await child.waitFor(/http:\/\/\S+/);
    const reader = (await fetch(`${base}/test/events/silent`)).body!.getReader();
    await reader.read();
    const socket = await openSocket(`${base.replace("http", "ws")}/ws`);
    const port = Number(new URL(base).port);
    const silent = connect(port, "127.0.0.1");
    const half = connect(port, "127.0.0.1");
    half.write("POST /test/echo HTTP/1.1\r\nHost: localhost\r\nContent-Le");
    for (const idle of [silent, half]) idle.on("error", () => {});
    await Promise.all([silent, half].map((idle) => (idle.connecting ? once(idle, "connect") : undefined)));
    return { child, reader, socket };
  }

  it("ends both cleanly and the process with 0, long before its drain time is over", async () => {
    const { child, reader, socket } = await setUp();
    child.process.kill("SIGTERM");
    expect(await reader.read()).toMatchObject({ done: true });
    expect(await socket.closed).toBe(1001);
    expect(await child.ended).toMatchObject({ code: 0, stdout: expect.stringContaining("disposed") });
  });

  it("does not wait for a WebSocket that never answers", async () => {
    const { child, socket } = await setUp();
    (socket.ws as unknown as { _socket: import("node:net").Socket })._socket.pause();
    child.process.kill("SIGTERM");
    expect(await child.ended).toMatchObject({ code: 0 });
  });

  it("ends at once at the second signal", async () => {
    const { child, socket } = await setUp();
    (socket.ws as unknown as { _socket: import("node:net").Socket })._socket.pause();
    child.process.kill("SIGTERM");
    await child.waitFor(/shutting down/);
    child.process.kill("SIGTERM");
    expect(await child.ended).toMatchObject({ code: 1 });
  });
});
