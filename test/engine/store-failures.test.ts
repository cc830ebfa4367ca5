import { andThen, andWaitFor, defineWorkflow, embedded, type Config } from "agentserve";
import { expect, it, onTestFinished, vi } from "vitest";
import { Store } from "../../src/backends/embedded/store/store.ts";
import { JournalTable } from "../../src/backends/embedded/store/tables/journal-table.ts";
import { patienceMs } from "../harness/patience.ts";
import { startServer, startTestServer } from "../harness/server.ts";
import { serve } from "../workflows/waits/serve.ts";
import { newFile } from "../harness/folders.ts";

function fileConfig(workflow: any, limits: object = {}): Config {
  return { workflows: [workflow], backend: embedded({ path: newFile() }), server: { limits } };
}

it("writes nothing more of an execution after a result that can never be written", async () => {
  const release = Promise.withResolvers<void>();
  const both = ["a", "b"].map((id) =>
    andThen({
      id,
      async execute() {
        await release.promise; // so that both results are in one transaction
        return id;
      },
    }),
  );
  const config = fileConfig(defineWorkflow({ id: "both" }).andAll({ id: "all", steps: both }));
  const first = await startServer("in process", { config });
  const { add } = Store.prototype;
  const failing = vi.spyOn(Store.prototype, "add").mockImplementation(function (this: Store, ...args) {
    if (args[1].key === "a#1") throw new Error("this row is refused");
    return add.apply(this, args);
  });
  const waiting = first.post("/workflows/both/execute", { input: {}, options: { executionId: "x" } });
  release.resolve();
  expect(await waiting).toMatchObject({
    status: 500,
    body: { error: "Execution x is not running in this process. It continues at the next start" },
  });
  expect((await first.get("/workflows/both/executions/x/state")).body.data.status).toBe("running");
  expect(first.logs.filter(({ message }) => message.startsWith("Execution stopped: ")).length).toBe(1);
  failing.mockRestore();
  await first.close();

  const second = await startTestServer("in process", { config });
  const stream = await second.get("/workflows/both/executions/x/stream");
  expect(stream.events.at(-1)).toMatchObject({ type: "workflow-result", status: "completed", result: ["a", "b"] });
});

it("does not fail a step when the store cannot read its data: the step runs again after the next start", async () => {
  const long = "x".repeat(5_000);
  const config = fileConfig(
    defineWorkflow({ id: "long" })
      .andThen({ id: "make", execute: () => long })
      .andThen({ id: "wait", execute: ({ suspend, resumeData, data }) => (resumeData ? data : suspend()) })
      .andThen({ id: "use", execute: ({ getStepData }) => (getStepData("make") as string).length }),
  );
  const first = await startServer("in process", { config });
  await first.post("/workflows/long/execute", { input: {}, options: { executionId: "x" } });
  const failing = vi.spyOn(JournalTable.prototype, "text").mockImplementation(() => {
    throw new Error("this page is unreadable");
  });
  const resumed = await first.post("/workflows/long/executions/x/resume", { resumeData: true });
  expect(resumed).toMatchObject({
    status: 500,
    body: { error: "Execution x is not running in this process. It continues at the next start" },
  });
  expect(first.logs.filter(({ message }) => message.startsWith("Step "))).toEqual([]);
  failing.mockRestore();
  await first.close();

  const second = await startTestServer("in process", { config });
  const stream = await second.get("/workflows/long/executions/x/stream");
  expect(stream.events.at(-1)).toMatchObject({ status: "completed", result: 5_000 });
});

it("starts no further branch of an execution once the data of one cannot be read", async () => {
  const begun: string[] = [];
  const branches = ["a", "b", "c"].map((id) =>
    andThen({
      id,
      execute() {
        begun.push(id);
        return new Promise(() => {});
      },
    }),
  );
  const workflow = defineWorkflow({ id: "branches" })
    .andThen({ id: "make", execute: () => "x".repeat(5_000) })
    .andAll({ id: "all", steps: branches });
  const config = fileConfig(workflow, { drainMs: 10 });
  const first = await startServer("in process", { config });
  const waiting = first.post("/workflows/branches/execute", { input: {}, options: { executionId: "x" } });
  await vi.waitFor(() => expect(begun).toEqual(["a", "b", "c"]), { timeout: patienceMs });
  await first.close();
  expect((await waiting).status).toBe(503);

  begun.length = 0;
  const failing = vi.spyOn(JournalTable.prototype, "text").mockImplementationOnce(() => {
    throw new Error("this page is unreadable");
  });
  onTestFinished(() => failing.mockRestore());
  const second = await startTestServer("in process", { config });
  expect((await second.get("/workflows/branches/executions/x/state")).body.data.status).toBe("running");
  expect(begun).toEqual([]);
  expect(second.logs.filter(({ message }) => message.startsWith("Execution stopped: ")).length).toBe(1);
});

it("hands an event out that came while a resume was written, once the store has refused the resume", async () => {
  const workflow = defineWorkflow({ id: "w" }).andAll({
    id: "all",
    steps: [
      andWaitFor({ id: "paid", event: "paid" }),
      andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend("?") }),
    ],
  });
  const server = serve({ workflows: [workflow] });
  await server.begin("w");
  await vi.waitFor(async () => expect((await server.state("w")).status).toBe("suspended"), { timeout: patienceMs });
  // The first look for the event fails. The next one comes while the resume waits for the store.
  const unreadable = vi.spyOn(JournalTable.prototype, "rows").mockImplementationOnce(() => {
    throw new Error("this page is unreadable");
  });
  onTestFinished(() => unreadable.mockRestore());
  expect((await server.post("/events", { name: "paid", data: 1 })).status).toBe(202);
  await server.clock.advance(0);
  expect(unreadable).toHaveBeenCalledTimes(1);
  const { save } = Store.prototype;
  const unwritable = vi.spyOn(Store.prototype, "save").mockImplementation(function (this: Store, ...args) {
    if (args[1].row?.kind !== "command") return save.apply(this, args);
    throw Object.assign(new Error("database is locked"), { code: "ERR_SQLITE_ERROR", errcode: 5 });
  });
  onTestFinished(() => unwritable.mockRestore());
  const resumed = server.resume("w", { resumeData: "yes" });
  await vi.waitFor(() => expect(unwritable).toHaveBeenCalled(), { timeout: patienceMs });
  await server.clock.advance(1_000);
  expect((await resumed).status).toBe(503);
  unwritable.mockRestore();
  const check = async (): Promise<void> => {
    const { suspension } = await server.state("w");
    expect(suspension.stepId).toBe("ask");
    expect(suspension.pending).toBeUndefined();
  };
  await vi.waitFor(check, { timeout: patienceMs });
});
