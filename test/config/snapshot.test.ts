import { defineWebSocketHandler, type H3 } from "h3";
import { expect, it, vi } from "vitest";
import { toProject } from "../../src/config/load.ts";
import { createSnapshot } from "../../src/config/snapshot.ts";
import { testRows } from "../harness/rows.ts";
import { createTestLogger, startTestServer, type LogRecord } from "../harness/server.ts";
import { noRuntime } from "../harness/no-runtime.ts";
import { noTracer } from "../harness/tracer.ts";

const setUp = (onDispose: () => void | Promise<void>) => {
  const logs: LogRecord[] = [];
  return {
    logs,
    snapshot: createSnapshot(toProject({ onDispose }), {
      logger: createTestLogger(logs),
      tracer: noTracer,
      ask: async () => "",
      runTurn: async () => {},
      createRuntime: noRuntime,
    }),
  };
};

it("disposes of a retired snapshot once, when its last holder has released it", async () => {
  const onDispose = vi.fn();
  const { snapshot } = setUp(onDispose);
  const [first, second] = [snapshot.hold("request"), snapshot.hold("request")];
  first();
  first(); // twice counts once
  const retired = snapshot.retire();
  first(); // and so does a third time, after it is retired
  await Promise.resolve();
  expect(onDispose).not.toHaveBeenCalled();
  second();
  await Promise.all([retired, snapshot.retire()]);
  expect(onDispose).toHaveBeenCalledTimes(1);
});

it("logs an onDispose that throws", async () => {
  const { snapshot, logs } = setUp(() => Promise.reject(new Error("mine")));
  await snapshot.retire();
  expect(logs).toMatchObject([{ level: "error", message: "onDispose failed", data: { error: new Error("mine") } }]);
});

it.each(["in process", "dev", "start"] as const)(
  "keeps a snapshot until its responses and streams are over (%s)",
  async (target) => {
    const onDispose = vi.fn();
    const server = await startTestServer(target, { config: { onDispose }, rows: testRows });
    const reader = (await server.send("/test/events/silent", {})).body!.getReader();
    await reader.read();
    const retired = server.snapshot.retire();
    expect((await server.get("/workflows")).status).toBe(200); // time enough to be disposed of, were it not held
    expect(onDispose).not.toHaveBeenCalled();
    await reader.cancel();
    await retired;
    expect(onDispose).toHaveBeenCalledTimes(1);
  },
);

it("keeps a snapshot while a handler in process has not answered", async () => {
  const onDispose = vi.fn();
  const server = await startTestServer("in process", {
    config: { onDispose, server: { limits: { drainMs: 50 } } },
    rows: testRows,
  });
  void server.send("/test/wait", {});
  void server.snapshot.retire();
  await server.get("/workflows");
  expect(onDispose).not.toHaveBeenCalled();
});

it.each(["dev", "start"] as const)("keeps a snapshot until a WebSocket of the host has closed (%s)", async (target) => {
  const onDispose = vi.fn();
  const configureApp = (app: H3): void => void app.get("/mine", defineWebSocketHandler({}));
  const server = await startTestServer(target, { config: { onDispose, configureApp } });
  const socket = await server.socket("/mine");
  const retired = server.snapshot.retire();
  expect((await server.get("/workflows")).status).toBe(200);
  expect(onDispose).not.toHaveBeenCalled();
  socket.close();
  await retired;
  expect(onDispose).toHaveBeenCalledTimes(1);
});

it.each(["dev", "start"] as const)(
  "does not keep a snapshot for a built-in WebSocket, which outlives it (%s)",
  async (target) => {
    const onDispose = vi.fn();
    const server = await startTestServer(target, { config: { onDispose } });
    const socket = await server.socket("/ws");
    await server.snapshot.retire();
    expect(onDispose).toHaveBeenCalledTimes(1);
    socket.close();
  },
);
