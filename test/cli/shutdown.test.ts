import { connect } from "node:net";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { openSocket } from "../harness/server.ts";
import { startHost } from "../harness/start-host.ts";

describe.each(["dev", "start"])("SIGTERM with an open SSE and an open WebSocket (%s)", (mode) => {
  /** A server of its own, a reader who waits for the next event, a socket, and connections that do nothing. */
  async function setUp() {
    const host = await startHost("test/fixtures/rows-app.ts", { mode });
    const base = host.url;
    const reader = (await fetch(`${base}/test/events/silent`)).body!.getReader();
    await reader.read();
    const socket = await openSocket(`${base.replace("http", "ws")}/ws`);
    const port = Number(new URL(base).port);
    const silent = connect(port, "127.0.0.1");
    const half = connect(port, "127.0.0.1");
    half.write("POST /test/echo HTTP/1.1\r\nHost: localhost\r\nContent-Le");
    for (const idle of [silent, half]) idle.on("error", () => {});
    await Promise.all([silent, half].map((idle) => (idle.connecting ? once(idle, "connect") : undefined)));
    return { host, reader, socket };
  }

  it("ends an open SSE stream and WebSocket at SIGTERM and exits with 0, long before its drain time is over", async () => {
    const { host, reader, socket } = await setUp();
    host.child.kill("SIGTERM");
    expect(await reader.read()).toMatchObject({ done: true });
    expect(await socket.closed).toBe(1001);
    expect(await host.ended).toMatchObject({ code: 0 });
    expect(host.stdout).toContain("disposed");
  });

  it("does not wait at SIGTERM for a WebSocket that never answers", async () => {
    const { host, socket } = await setUp();
    (socket.ws as unknown as { _socket: import("node:net").Socket })._socket.pause();
    host.child.kill("SIGTERM");
    expect(await host.ended).toMatchObject({ code: 0 });
  });
});
