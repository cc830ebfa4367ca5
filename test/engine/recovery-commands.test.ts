import { DatabaseSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import { defineWorkflow, embedded, type Config } from "agentserve";
import { expect, it, onTestFinished, vi } from "vitest";
import { EmbeddedEngine } from "../../src/backends/embedded/engine.ts";
import { Drives } from "../../src/backends/embedded/drives.ts";
import { Store } from "../../src/backends/embedded/store/store.ts";
import { JournalTable } from "../../src/backends/embedded/store/tables/journal-table.ts";
import { ProcessTable } from "../../src/backends/embedded/store/tables/process-table.ts";
import { patienceMs } from "../harness/patience.ts";
import { createTestLogger, startServer, startTestServer } from "../harness/server.ts";
import { newFile } from "../harness/folders.ts";

const patience = { timeout: patienceMs };
const later = { headers: { prefer: "respond-async" } };

const openEngine = (path: string): EmbeddedEngine =>
  new EmbeddedEngine({
    path,
    durability: "normal",
    retention: { endedMs: undefined, suspendedMs: undefined, conversationsMs: undefined, eventsMs: 86_400_000 },
    logger: createTestLogger([]),
    sseBufferBytes: 1_000,
    runningExecutions: 1,
    queuedExecutions: 10,
    waitingExecutions: 10,
    executionBytes: 1_000,
    conversationBytes: 33_554_432,
  });

/** A file with executions that a process left running. One runs at a time. */
const leaveRunning = (...ids: string[]) => leave({}, ids);
async function leave(options: { concurrency?: { limit: number } }, ids: string[]) {
  const file = newFile();
  const begun: string[] = [];
  const workflow = defineWorkflow({ id: "w", ...options }).andThen({
    id: "hangs",
    execute({ executionId }) {
      begun.push(executionId);
      return new Promise(() => {});
    },
  });
  const config: Config = {
    workflows: [workflow],
    backend: embedded({ path: file }),
    server: { limits: { drainMs: 10, runningExecutions: 1 } },
  };
  const server = await startServer("in process", { config });
  const program = server.snapshot.workflows.get("w")!;
  for (const id of ids) await server.post("/workflows/w/execute", { input: {}, options: { executionId: id } }, later);
  await vi.waitFor(() => expect(begun).toEqual([ids[0]]), patience);
  await server.close();
  begun.length = 0;
  const write = (sql: string): void => {
    const db = new DatabaseSync(file);
    db.exec(sql);
    db.close();
  };
  const path = (id: string, action: string) => `/workflows/w/executions/${id}/${action}`;
  return { file, begun, config, program, write, path, createEngine: () => openEngine(file) };
}
/** Holds the reads of a method of the store, from the first one on, until they are `opened`. */
function hold(method: "history" | "rows") {
  const read = JournalTable.prototype[method] as (this: JournalTable, key: never) => AsyncGenerator<never>;
  const [reached, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const reading = vi.spyOn(JournalTable.prototype, method).mockImplementation(async function* (
    this: JournalTable,
    key: unknown,
  ) {
    reached.resolve();
    await opened.promise;
    yield* read.call(this, key as never);
  });
  onTestFinished(() => reading.mockRestore());
  return { reached, opened };
}
/** Marks executions as if crashes had interrupted them before their first row. */
const crashed = (crashes: number, ...ids: string[]): string =>
  `update executions set crash_row = 0, crashes = ${crashes} where id in (${ids.map((id) => `'${id}'`).join()})`;

/** Returns the rejections that nothing handles. */
function watchRejections(): unknown[] {
  const unhandled: unknown[] = [];
  const listen = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", listen);
  onTestFinished(() => void process.off("unhandledRejection", listen));
  return unhandled;
}

it("starts the next suspect when the one before it is cancelled in the queue", async () => {
  const { begun, config, write, path } = await leaveRunning("normal", "a", "b");
  write(crashed(2, "a", "b"));
  const queued = vi.spyOn(Drives.prototype, "nextChange");
  onTestFinished(() => queued.mockRestore());
  const server = await startTestServer("in process", { config });
  await vi.waitFor(() => expect(queued).toHaveBeenCalledWith("a"), patience);
  expect((await server.post(path("a", "cancel"), {})).status).toBe(200);
  expect((await server.post(path("normal", "cancel"), {})).status).toBe(200);
  await vi.waitFor(() => expect(begun).toEqual(["normal", "b"]), patience);
});

it("starts a suspect in its turn when a cancel of it could not be written", async () => {
  const { begun, config, write, path } = await leaveRunning("a", "b");
  write(crashed(2, "a", "b"));
  const isolated = vi.spyOn(ProcessTable.prototype, "isolate");
  const changes = Promise.withResolvers<void>();
  const changed = vi.spyOn(Drives.prototype, "nextChange").mockReturnValue(changes.promise);
  const limits = { drainMs: 10, runningExecutions: 5 };
  const server = await startTestServer("in process", { config: { ...config, server: { limits } } });
  await vi.waitFor(() => expect(begun).toEqual(["a"]), patience);
  const moves = vi.spyOn(Store.prototype, "move").mockImplementation(() => {
    throw new Error("this page cannot be written");
  });
  onTestFinished(() => [isolated, changed, moves].forEach((spy) => spy.mockRestore()));
  expect((await server.post(path("b", "cancel"), {})).status).toBe(500);
  expect(isolated).toHaveBeenCalledTimes(1);
  await new Promise((resolve) => setImmediate(resolve));
  expect(begun).toEqual(["a"]);
  changes.resolve();
  await vi.waitFor(() => expect(begun).toEqual(["a", "b"]), patience);
  expect(isolated).toHaveBeenCalledTimes(2);
});

it("keeps the place of a suspect in its group until its turn comes", async () => {
  const { begun, config, write } = await leave({ concurrency: { limit: 1 } }, ["a", "b"]);
  write(crashed(2, "a"));
  await startTestServer("in process", { config });
  await vi.waitFor(() => expect(begun).not.toEqual([]), patience);
  expect(begun).toEqual(["a"]);
});

it("leaves the suspects that wait to the next start when the server closes", async () => {
  const { begun, config, write } = await leaveRunning("a", "b");
  write(crashed(2, "a", "b"));
  const unhandled = watchRejections();
  const waited = Promise.withResolvers<void>();
  const changed = vi.spyOn(Drives.prototype, "nextChange").mockReturnValue(waited.promise);
  onTestFinished(() => changed.mockRestore());
  const server = await startServer("in process", { config });
  await vi.waitFor(() => expect(begun).toEqual(["a"]), patience);
  await server.close();
  waited.resolve();
  for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve));
  expect({ begun, unhandled }).toEqual({ begun: ["a"], unhandled: [] });
});

it("does not count the crashes before a resume when the server is closed after it", async () => {
  const { begun, config, write, path } = await leaveRunning("x");
  write(crashed(4, "x"));
  const second = await startServer("in process", { config });
  expect((await second.get(path("x", "state"))).body.data.status).toBe("suspended");
  const resumed = second.post(path("x", "resume"), {});
  await vi.waitFor(() => expect(begun).toEqual(["x"]), patience);
  await second.close();
  expect((await resumed).status).toBe(503);
  const third = await startTestServer("in process", { config });
  expect((await third.get(path("x", "state"))).body.data.status).toBe("running");
  await vi.waitFor(() => expect(begun).toEqual(["x", "x"]), patience);
});

it("keeps a crash that is not counted yet when it is closed before it serves", async () => {
  const { file, write, createEngine } = await leaveRunning("a");
  write("update process set clean = 0");
  const engine = createEngine();
  const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const opening = engine.open({
    mayServe() {
      asked.resolve();
      return answered.promise;
    },
  });
  await asked.promise;
  await engine.close({ drainMs: 0 });
  answered.resolve();
  await expect(opening).rejects.toThrow();
  const store = new Store(file, "normal");
  store.transaction(() => store.processes.start());
  expect((await store.processes.leftRunning().next()).value).toMatchObject([{ crashes: 1 }]);
  store.close();
});

it("cancels an execution while those before it are being suspended, and gives its slot to the next one", async () => {
  const { begun, config, write, path } = await leaveRunning("poison", "b", "c");
  write(crashed(4, "poison"));
  const { reached, opened } = hold("history");
  const server = await startTestServer("start", { config });
  await reached.promise;
  expect((await server.post(path("b", "cancel"), {})).status).toBe(200);
  opened.resolve();
  await vi.waitFor(() => expect(begun).toEqual(["c"]), patience);
});

it("starts no step of an execution that is cancelled before the recovery begins", async () => {
  const { begun, program, createEngine } = await leaveRunning("a", "b");
  const engine = createEngine();
  onTestFinished(() => engine.close({ drainMs: 0 }));
  await engine.open();
  const cancelled = engine.cancel("a", "not needed");
  const settled = engine.settled("a", 0);
  await engine.recover(() => program);
  expect(await cancelled).toMatchObject({ status: "error" });
  expect(await settled).toMatchObject({ status: "error" });
  await vi.waitFor(() => expect(begun).toContain("b"), patience);
  expect(begun).toEqual(["b"]);
});

it("continues the others when an execution that has crashed too often cannot be suspended", async () => {
  const { begun, config, write } = await leaveRunning("poison", "b");
  write(crashed(4, "poison"));
  const { move } = Store.prototype;
  const moves = vi.spyOn(Store.prototype, "move").mockImplementation(function (this: Store, number, ...rest) {
    if (number === 1) throw new Error("this page cannot be written");
    return move.call(this, number, ...rest);
  });
  onTestFinished(() => moves.mockRestore());
  await startTestServer("in process", { config });
  await vi.waitFor(() => expect(begun).toEqual(["b"]), patience);
});

it("loads no further execution once it closes", async () => {
  const { program, createEngine } = await leaveRunning("a", "b", "c");
  const engine = createEngine();
  await engine.open();
  const { reached, opened } = hold("rows");
  const states = vi.spyOn(Store.prototype, "state");
  onTestFinished(() => states.mockRestore());
  const recovered = engine.recover(() => program);
  await reached.promise;
  const settled = engine.settled("a", 0);
  const refused = expect(settled).rejects.toMatchObject({ status: 503 });
  const closed = engine.close({ drainMs: 0 });
  states.mockClear();
  opened.resolve();
  await Promise.all([recovered, closed, refused]);
  expect(states).not.toHaveBeenCalled();
});

it("gives up thousands of executions that cannot be read", async () => {
  const count = 5_000;
  const { config, write } = await leaveRunning("a");
  write(`insert into executions(number, id, workflow, started, definition, input, status, epoch, seq, events)
    with recursive c(i) as (select 1 union all select i + 1 from c where i < ${count - 1})
    select 10 + i, 'n' || i, workflow, started, definition, input, 'running', 0, seq, events from c, executions`);
  const unhandled = watchRejections();
  const states = vi.spyOn(Store.prototype, "state").mockImplementation(() => {
    throw new Error("this page is unreadable");
  });
  onTestFinished(() => states.mockRestore());
  const server = await startServer("in process", { config });
  const complaints = server.logs.filter(({ message }) => message.startsWith("An execution could not be loaded"));
  await server.close();
  expect({ complaints: complaints.length, unhandled }).toEqual({ complaints: count, unhandled: [] });
});

it("answers 503 to a suspend of an execution that is being loaded when the server closes", async () => {
  const { program, createEngine } = await leaveRunning("a", "b");
  const engine = createEngine();
  await engine.open();
  await engine.recover(() => program); // a runs, and b is queued
  const { reached, opened } = hold("rows");
  const suspended = expect(engine.suspend("b", "later")).rejects.toMatchObject({ status: 503 });
  await reached.promise;
  const closed = engine.close({ drainMs: 0 });
  opened.resolve();
  await Promise.all([suspended, closed]);
});

it("answers 503 to a suspend of an execution that cannot be read, which keeps its place and can be suspended later", async () => {
  const { begun, config, path } = await leaveRunning("a", "b");
  const server = await startTestServer("in process", { config });
  await vi.waitFor(() => expect(begun).toEqual(["a"]), patience);
  const pages = vi.spyOn(JournalTable.prototype, "rows").mockImplementationOnce(() => {
    throw new Error("this page is unreadable");
  });
  onTestFinished(() => pages.mockRestore());
  const refused = await server.post(path("b", "suspend"), {});
  expect([refused.status, refused.headers.get("retry-after"), refused.body.error]).toEqual([
    503,
    "1",
    "Storage cannot be read: nothing was changed",
  ]);
  expect((await server.get(path("b", "state"))).body.data.status).toBe("running");
  expect((await server.post(path("b", "suspend"), {})).status).toBe(200);
});

it("does not count the crash of a process that continued no execution", async () => {
  const { file, write, createEngine } = await leaveRunning("a");
  write("update process set clean = 0");
  const engine = createEngine();
  onTestFinished(() => engine.close({ drainMs: 0 }));
  await engine.open();
  await engine.recover(); // as with --no-recovery
  const next = new Store(file, "normal"); // as after a kill
  next.transaction(() => next.processes.start());
  expect((await next.processes.leftRunning().next()).value).toMatchObject([{ crashes: 1 }]);
  next.close();
});

it("hands an event that comes before the recovery to the execution that waits for it, on the code of the config", async () => {
  const file = newFile();
  const workflow = defineWorkflow({ id: "w" }).andWaitFor({ id: "paid", event: "paid" });
  const config: Config = { workflows: [workflow], backend: embedded({ path: file }) };
  const server = await startServer("in process", { config });
  const program = server.snapshot.workflows.get("w")!;
  await server.post("/workflows/w/execute", { input: {}, options: { executionId: "x" } });
  await server.close();
  const engine = openEngine(file);
  onTestFinished(() => engine.close({ drainMs: 0 }));
  await engine.open();
  const event = { id: "1 code", name: "paid", key: "", data: "1", isFromCode: true };
  expect(await engine.send(event, "half")).toBe("stored");
  for (let turn = 0; turn < 10; turn++) await nextTurn();
  expect(await engine.state("x")).toMatchObject({ status: "suspended", epoch: 1 });
  await engine.recover((id) => (id === "w" ? program : undefined));
  await vi.waitFor(async () => expect(await engine.state("x")).toMatchObject({ status: "completed" }), patience);
});
