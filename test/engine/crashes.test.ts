import { defineWorkflow, embedded, type Config } from "agentserve";
import { expect, it, onTestFinished, vi } from "vitest";
import { JournalTable } from "../../src/backends/embedded/store/tables/journal-table.ts";
import { ProcessTable } from "../../src/backends/embedded/store/tables/process-table.ts";
import { patienceMs } from "../harness/patience.ts";
import { startServer, type TestServer } from "../harness/server.ts";
import { newFile } from "../harness/folders.ts";

const patience = { timeout: patienceMs };
const later = { headers: { prefer: "respond-async" } };

/** A project on one file, with a step that hangs until `mend` is called. */
function createProject({ before = 0, after = 0 }: { before?: number; after?: number } = {}) {
  const begun: string[] = [];
  let mended: string[] = [];
  let workflow: any = defineWorkflow({ id: "w" });
  for (let index = 0; index < before; index++) workflow = workflow.andThen({ id: `s${index}`, execute: () => index });
  const names = ["hangs", ...Array.from({ length: after }, (_, index) => `after${index}`)];
  for (const id of names)
    workflow = workflow.andThen({
      id,
      execute({ executionId, stepId }: any) {
        begun.push(after ? `${stepId} ${executionId}` : executionId);
        return ["all", executionId, stepId].some((one) => mended.includes(one)) ? "done" : new Promise(() => {});
      },
    });
  const config: Config = {
    workflows: [workflow],
    backend: embedded({ path: newFile() }),
    server: { limits: { drainMs: 10 } },
  };
  const path = (id: string, action: string) => `/workflows/w/executions/${id}/${action}`;
  return {
    begun,
    mend: (...ids: string[]) => void (mended = ids),
    path,
    start: (more: Config = {}) =>
      startServer("in process", { config: { ...config, ...more } }).then(async (server) => {
        await server.get("/workflows"); // it has recovered
        return server;
      }),
    begin: (server: TestServer, ...ids: string[]) =>
      Promise.all(
        ids.map((id) => server.post("/workflows/w/execute", { input: {}, options: { executionId: id } }, later)),
      ),
    stateOf: async (server: TestServer, id: string) => (await server.get(path(id, "state"))).body.data,
  };
}

/** Ends a server as a crash would: the file does not say that it was closed. */
async function crash(server: TestServer): Promise<void> {
  const end = vi.spyOn(ProcessTable.prototype, "end").mockImplementation(() => {});
  await server.close();
  end.mockRestore();
}

it("suspends an execution after the third crash without progress, and continues it after a resume", async () => {
  const { begun, mend, start, begin, stateOf, path } = createProject();
  const first = await start();
  await begin(first, "x");
  await vi.waitFor(() => expect(begun).toHaveLength(1), patience);
  await crash(first);
  for (const life of [2, 3]) {
    const server = await start();
    await vi.waitFor(() => expect(begun).toHaveLength(life), patience);
    await crash(server);
  }
  const fourth = await start();
  const reason = "Interrupted 3 times by a crash";
  expect(await stateOf(fourth, "x")).toMatchObject({
    status: "suspended",
    suspension: { kind: "system", reason, stepId: "hangs", stepIndex: 0 },
  });
  expect(begun).toHaveLength(3);
  mend("all");
  const { body } = await fourth.post(path("x", "resume"), {});
  expect(body.data).toMatchObject({ status: "completed", result: "done" });
  await fourth.close();
});

it("continues an execution after any number of restarts without a crash", async () => {
  const { begun, start, begin, stateOf } = createProject();
  const first = await start();
  await begin(first, "x");
  for (let life = 1; life <= 6; life++) {
    const server = life === 1 ? first : await start();
    await vi.waitFor(() => expect(begun).toHaveLength(life), patience);
    expect(await stateOf(server, "x")).toMatchObject({ status: "running" });
    await server.close();
  }
});

it("counts the crashes of an execution anew when it has made a row since the last one", async () => {
  const { begun, mend, start, begin, stateOf } = createProject({ after: 6 });
  const first = await start();
  await begin(first, "x");
  await vi.waitFor(() => expect(begun).toEqual(["hangs x"]), patience);
  await crash(first);
  for (let life = 0; life < 5; life++) {
    mend(...Array.from({ length: life + 1 }, (_, index) => (index === 0 ? "hangs" : `after${index - 1}`)));
    const server = await start(); // it records one more step in each life
    await vi.waitFor(() => expect(begun).toContain(`after${life} x`), patience);
    await crash(server);
  }
  const last = await start();
  expect((await stateOf(last, "x")).status).toBe("running");
  await last.close();
});

it("starts executions one by one after two crashes: only the one in flight at the third is suspended", async () => {
  const { begun, mend, start, begin, stateOf } = createProject();
  const ids = ["a", "b", "c"];
  const first = await start();
  await begin(first, ...ids);
  await vi.waitFor(() => expect(begun).toHaveLength(3), patience);
  await crash(first);
  const second = await start();
  await vi.waitFor(() => expect(begun).toHaveLength(6), patience);
  await crash(second);

  begun.length = 0;
  const third = await start();
  const [suspect] = await vi.waitFor(() => {
    expect(begun).toHaveLength(1);
    return begun;
  }, patience);
  await begin(third, "new"); // other executions are not held up
  await vi.waitFor(() => expect(begun).toEqual([suspect, "new"]), patience);
  await crash(third);

  begun.length = 0;
  const others = ids.filter((id) => id !== suspect);
  mend(...others, "new");
  const fourth = await start();
  for (const id of others)
    await vi.waitFor(async () => expect((await stateOf(fourth, id)).status).toBe("completed"), patience);
  expect(await stateOf(fourth, suspect!)).toMatchObject({ status: "suspended", suspension: { kind: "system" } });
  await fourth.close();
});

it("starts a child after two crashes, though its parent has started alone and waits for it", async () => {
  const { start } = createProject();
  const begun: string[] = [];
  let isMended = false;
  const hang = () => (isMended ? undefined : new Promise<never>(() => {}));
  const child = defineWorkflow({ id: "child" }).andThen({
    id: "works",
    async execute({ executionId }) {
      begun.push(executionId);
      await hang();
      return "done";
    },
  });
  const parent = defineWorkflow({ id: "parent" }).andThen({
    id: "waits",
    async execute({ runtime, executionId }) {
      const handle = await runtime.start(child, {});
      begun.push(executionId);
      await hang();
      return handle.result();
    },
  });
  const startFamily = () => start({ workflows: [parent, child] });
  const first = await startFamily();
  // Each of them would hold up its child for 30 s. The test has not the patience for both.
  const ids = ["a", "b"];
  for (const executionId of ids)
    await first.post("/workflows/parent/execute", { input: {}, options: { executionId } }, later);
  await vi.waitFor(() => expect(begun).toHaveLength(4), patience);
  await crash(first);
  const second = await startFamily();
  await vi.waitFor(() => expect(begun).toHaveLength(8), patience);
  await crash(second);

  isMended = true;
  const third = await startFamily();
  await vi.waitFor(async () => {
    const { body } = await third.get("/workflows/parent/executions?status=completed");
    expect(body.data.items).toHaveLength(ids.length);
  }, patience);
  await third.close();
});

/** Executions that the last process left running, on a server that runs one at a time. */
async function leave(ids: readonly string[]) {
  const project = createProject({ before: 1 });
  const first = await project.start();
  await project.begin(first, ...ids);
  await vi.waitFor(() => expect(project.begun).toHaveLength(ids.length), patience);
  await first.close();
  project.begun.length = 0;
  const journal = vi.spyOn(JournalTable.prototype, "rows");
  onTestFinished(() => journal.mockRestore());
  const server = await project.start({ server: { limits: { runningExecutions: 1, drainMs: 10 } } });
  onTestFinished(() => server.close());
  return { ...project, server, journal };
}

it("loads executions after a restart when they get a slot, not before", async () => {
  const { begun, mend, server, journal, stateOf } = await leave(["a", "b", "c"]);
  await vi.waitFor(() => expect(begun).toEqual(["a"]), patience);
  expect(journal).toHaveBeenCalledTimes(1);
  expect((await server.get("/workflows/w")).body.data.status).toBe("running");
  mend("all");
  await server.post("/workflows/w/executions/a/cancel", {});
  for (const id of ["b", "c"])
    await vi.waitFor(async () => expect((await stateOf(server, id)).status).toBe("completed"), patience);
  expect(journal).toHaveBeenCalledTimes(3);
});

it("suspends, resumes, cancels and follows executions that wait for a slot after a restart", async () => {
  const { begun, mend, server, path, stateOf } = await leave(["a", "b", "c", "d"]);
  await vi.waitFor(() => expect(begun).toEqual(["a"]), patience);
  const followed = server.get(path("d", "stream"));
  expect((await server.post(path("b", "suspend"), { reason: "later" })).body.data).toMatchObject({
    status: "suspended",
  });
  expect(await stateOf(server, "b")).toMatchObject({
    suspension: { reason: "later", stepId: "hangs", stepIndex: 1 },
  });
  expect((await server.post(path("c", "cancel"), { reason: "not needed" })).body.data).toMatchObject({
    cancellation: { reason: "not needed" },
  });
  expect((await server.post(path("c", "cancel"), {})).status).toBe(400);
  expect((await server.post(path("d", "resume"), {})).status).toBe(404);
  mend("all");
  const resumed = server.post(path("b", "resume"), {});
  await server.post(path("a", "cancel"), {});
  expect((await resumed).body.data).toMatchObject({ status: "completed" });
  expect((await followed).events.at(-1)).toMatchObject({ type: "workflow-result", status: "completed" });
  expect(begun.toSorted()).toEqual(["a", "b", "d"]);
});
