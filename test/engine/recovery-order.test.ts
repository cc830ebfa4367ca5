import { defineWorkflow, embedded, type Config } from "agentserve";
import { expect, it, onTestFinished, vi } from "vitest";
import { Store } from "../../src/backends/embedded/store/store.ts";
import { JournalTable } from "../../src/backends/embedded/store/tables/journal-table.ts";
import { patienceMs } from "../harness/patience.ts";
import { startServer, startTestServer } from "../harness/server.ts";
import { newFile } from "../harness/folders.ts";

const count = 1_200;
const patience = { timeout: patienceMs };

function fileConfig(workflows: any[], limits: object = {}): Config {
  return { workflows, backend: embedded({ path: newFile() }), server: { limits } };
}

/** A workflow of many recorded steps and a last one that hangs in the first life of the process. */
function createLong(id: string, begun: string[], isFirstLife: () => boolean, steps: number): any {
  let workflow: any = defineWorkflow({ id });
  for (let index = 0; index < steps; index++) workflow = workflow.andThen({ id: `s${index}`, execute: () => index });
  return workflow.andThen({
    id: "last",
    execute({ executionId }: any) {
      begun.push(executionId);
      return isFirstLife() ? new Promise(() => {}) : executionId;
    },
  });
}

it("gives slots to recovered executions in the order of their start, however long their journals are", async () => {
  const begun: string[] = [];
  let isFirst = true;
  const workflows = [createLong("long", begun, () => isFirst, count), createLong("short", begun, () => isFirst, 1)];
  const config = fileConfig(workflows, { runningExecutions: 10, drainMs: 10 });
  const first = await startServer("in process", { config });
  const prefer = { headers: { prefer: "respond-async" } };
  await first.post("/workflows/long/execute", { input: {}, options: { executionId: "first" } }, prefer);
  await vi.waitFor(() => expect(begun).toEqual(["first"]), patience);
  await first.post("/workflows/short/execute", { input: {}, options: { executionId: "second" } }, prefer);
  await vi.waitFor(() => expect(begun).toEqual(["first", "second"]), patience);
  await first.close();

  isFirst = false;
  begun.length = 0;
  const limits = { runningExecutions: 1, drainMs: 10 };
  const second = await startTestServer("in process", { config: { ...config, server: { limits } } });
  for (const [workflow, id] of [
    ["long", "first"],
    ["short", "second"],
  ])
    expect((await second.get(`/workflows/${workflow}/executions/${id}/stream`)).events.at(-1)).toMatchObject({
      status: "completed",
    });
  expect(begun).toEqual(["first", "second"]);
});

it("answers 503 to a resume whose long journal is being read when the server closes", async () => {
  let workflow: any = defineWorkflow({ id: "long" });
  for (let index = 0; index < count; index++) workflow = workflow.andThen({ id: `s${index}`, execute: () => index });
  workflow = workflow.andThen({ id: "ask", execute: ({ suspend }: any) => suspend() });
  const server = await startServer("in process", { config: fileConfig([workflow]) });
  await server.post("/workflows/long/execute", { input: {}, options: { executionId: "x" } });
  // The server closes, and the file with it, when the first page has been read.
  const { rows } = JournalTable.prototype;
  const { close } = Store.prototype;
  const closed = Promise.withResolvers<void>();
  const closings = vi.spyOn(Store.prototype, "close").mockImplementation(function (this: Store) {
    close.call(this);
    closed.resolve();
  });
  const pages = vi.spyOn(JournalTable.prototype, "rows").mockImplementation(async function* (
    this: JournalTable,
    number,
  ) {
    for await (const page of rows.call(this, number)) {
      void server.close();
      await closed.promise;
      yield page;
    }
  });
  onTestFinished(() => [closings, pages].forEach((spy) => spy.mockRestore()));
  const resumed = server.post("/workflows/long/executions/x/resume", { resumeData: true });
  expect(await resumed).toMatchObject({ status: 503, body: { error: "Server is shutting down" } });
});

it("starts no step of an execution that is accepted while the server closes", async () => {
  const begun: string[] = [];
  const workflow = defineWorkflow({ id: "one" }).andThen({
    id: "s",
    execute: (context) => begun.push(context.executionId),
  });
  const config = fileConfig([workflow]);
  const first = await startServer("in process", { config });
  const waiting = first.post("/workflows/one/execute", { input: {}, options: { executionId: "x" } });
  for (let turns = 0; turns < 12; turns++) await Promise.resolve(); // the request is checked, and not committed yet
  await first.close();
  expect((await waiting).status).toBe(503);
  expect(begun).toEqual([]);
});

it("waits for a retry that is further away than a timer can be set, without waking up meanwhile", async () => {
  const delays: number[] = [];
  const timers = vi.spyOn(globalThis, "setTimeout");
  onTestFinished(() => timers.mockRestore());
  const workflow = defineWorkflow({ id: "far" }).andThen({
    id: "s",
    retry: { attempts: 2, delay: 2 ** 40 },
    execute() {
      throw new Error("again, in 34 years");
    },
  });
  const server = await startTestServer("in process", { config: fileConfig([workflow], { drainMs: 10 }) });
  await server.post(
    "/workflows/far/execute",
    { input: {}, options: { executionId: "x" } },
    { headers: { prefer: "respond-async" } },
  );
  await vi.waitFor(
    () => expect(server.logs.some(({ message }) => message === "Step attempt failed")).toBe(true),
    patience,
  );
  await vi.waitFor(() => {
    delays.push(...timers.mock.calls.map(([, delay]) => delay ?? 0));
    expect(Math.max(...delays)).toBe(2 ** 31 - 1);
  }, patience);
});

it("aborts code that still runs beside a suspension", async () => {
  const reasons: string[] = [];
  const workflow = defineWorkflow({ id: "beside" }).andThen({
    id: "s",
    async execute({ suspend, signal, resumeData }) {
      if (resumeData !== undefined) return resumeData;
      signal.addEventListener("abort", () => reasons.push(String(signal.reason)));
      await Promise.all([suspend("a question"), new Promise(() => {})]);
    },
  });
  const server = await startTestServer("in process", { config: fileConfig([workflow]) });
  const started = await server.post("/workflows/beside/execute", { input: {}, options: { executionId: "x" } });
  expect(started.body.data).toMatchObject({ status: "suspended", suspension: { reason: "a question" } });
  await vi.waitFor(() => expect(reasons).toEqual(["Error: The step is suspended"]), patience);
});

it("serves although executions cannot be loaded, logs each of them, and continues them at the next start", async () => {
  const begun: string[] = [];
  let isFirst = true;
  const config = fileConfig(
    [createLong("ok", begun, () => isFirst, 1), createLong("changes", begun, () => isFirst, 1)],
    { drainMs: 10 },
  );
  const first = await startServer("in process", { config });
  const prefer = { headers: { prefer: "respond-async" } };
  for (const [workflow, id] of [
    ["ok", "one"],
    ["changes", "two"],
    ["changes", "three"],
    ["ok", "four"],
  ])
    await first.post(`/workflows/${workflow}/execute`, { input: {}, options: { executionId: id } }, prefer);
  await vi.waitFor(() => expect(begun.length).toBe(4), patience);
  await first.close();

  isFirst = false;
  begun.length = 0;
  // Two are suspended because their code has changed, which cannot be written; the journal of the last cannot be read.
  const unhandled: unknown[] = [];
  const listen = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", listen);
  onTestFinished(() => void process.off("unhandledRejection", listen));
  const { rows } = JournalTable.prototype;
  let loads = 0;
  const pages = vi.spyOn(JournalTable.prototype, "rows").mockImplementation(function (this: JournalTable, number) {
    if (++loads > 1) throw new Error("this page is unreadable");
    return rows.call(this, number);
  });
  const moves = vi.spyOn(Store.prototype, "move").mockImplementation(() => {
    throw new Error("this page cannot be written");
  });
  const workflows = [
    createLong("ok", begun, () => isFirst, 1),
    defineWorkflow({ id: "changes" }).andThen({ id: "new", execute: () => 1 }),
  ];
  const broken = await startServer("in process", { config: { ...config, workflows } });
  for (const spy of [pages, moves]) spy.mockRestore();
  const complaints = broken.logs.filter(({ message }) => message.startsWith("An execution could not be loaded"));
  expect(complaints.map(({ data }) => data?.["executionId"]).toSorted()).toEqual(["four", "three", "two"]);
  // A caller that asks for one of them is told so, and does not wait for ever.
  expect((await broken.get("/workflows/ok/executions/four/state")).body.data.status).toBe("running");
  expect((await broken.get("/workflows/ok/executions/four/stream")).events.at(-1)?.["type"]).not.toBe(
    "workflow-result",
  );
  await broken.close();
  await new Promise((resolve) => setImmediate(resolve));
  expect({ begun, unhandled }).toEqual({ begun: ["one"], unhandled: [] });

  const second = await startTestServer("in process", { config });
  for (const [workflow, id] of [
    ["ok", "one"],
    ["changes", "two"],
    ["changes", "three"],
    ["ok", "four"],
  ])
    expect((await second.get(`/workflows/${workflow}/executions/${id}/stream`)).events.at(-1)).toMatchObject({
      status: "completed",
    });
});
