import { expect, it, vi } from "vitest";
import { toProject } from "../../src/config/load.ts";
import { createSnapshot } from "../../src/config/snapshot.ts";
import { seen, testRows } from "../harness/rows.ts";
import { createTestLogger, openSocket, startServer, type LogRecord } from "../harness/server.ts";

const setUp = (onDispose: () => void | Promise<void>) => {
  const logs: LogRecord[] = [];
  return { logs, snapshot: createSnapshot(toProject({ onDispose }), createTestLogger(logs)) };
};

it("is disposed of once, when it is retired and its last holder has let go", async () => {
  const onDispose = vi.fn();
  const { snapshot } = setUp(onDispose);
  const [first, second] = [snapshot.hold(), snapshot.hold()];
  first();
  first(); // twice counts once
  const retired = snapshot.retire();
  await Promise.resolve();
  expect(onDispose).not.toHaveBeenCalled();
  second();
  await Promise.all([retired, snapshot.retire()]);
  expect(onDispose).toHaveBeenCalledTimes(1);
});

it("survives an onDispose that throws, and says so", async () => {
  const { snapshot, logs } = setUp(() => Promise.reject(new Error("mine")));
  await snapshot.retire();
  expect(logs).toMatchObject([{ level: "error", message: "onDispose failed", data: { error: new Error("mine") } }]);
});

it.each(["in process", "start"] as const)(
  "is held by a request until its response is over, a stream included (%s)",
  async (target) => {
    const onDispose = vi.fn();
    const server = await startServer(target, { config: { onDispose }, rows: testRows });
    const { returned } = seen;
    const reader = (await server.send("/test/events/silent", {})).body!.getReader();
    await reader.read();
    const closed = server.close(); // ends the stream, which lets go
    await closed;
    expect(seen.returned).toBe(returned + 1);
    expect(onDispose).toHaveBeenCalledTimes(1);
  },
);

it("is held by a WebSocket until it has closed", async () => {
  let open = true;
  const onDispose = vi.fn(() => expect(open).toBe(false));
  const server = await startServer("start", { config: { onDispose } });
  const { origin } = new URL((await server.send("/workflows", {})).url);
  const socket = await openSocket(`${origin.replace("http", "ws")}/ws`);
  void socket.closed.then(() => (open = false));
  await server.close();
  await socket.closed;
  expect(onDispose).toHaveBeenCalledTimes(1);
});
