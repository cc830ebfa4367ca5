import { chmodSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { defineWorkflow, embedded } from "agentserve";
import { expect, it, onTestFinished } from "vitest";
import { Store } from "../../src/backends/embedded/store/store.ts";
import { createFolder } from "../harness/folders.ts";
import { createTestLogger, startTestServer, type TestServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";
import { createFormat4, toConfig } from "./migrations/project.ts";

const workflows = [
  defineWorkflow({ id: "quick" }).andThen({ id: "only", execute: () => "done" }),
  defineWorkflow({ id: "asks" }).andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend() }),
];

const serve = (path: string): Promise<TestServer> =>
  startTestServer("start", { config: { workflows, backend: embedded({ path }) } });
const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);
const modesOf = (path: string): string[] =>
  ["", "-wal", "-shm", "-lock", "-pid"].map((suffix) => modeOf(path + suffix));
const execute = (server: TestServer, executionId: string, workflow = "quick") =>
  server.post(`/workflows/${workflow}/execute`, { input: {}, options: { executionId } });
const gone =
  "The data file was deleted or replaced: nothing can be written until it is back or the server is restarted";
const complaints = ({ logs }: TestServer): string[] =>
  logs.filter(({ level }) => level === "error").map(({ message }) => message);

it("creates the data file and its folder for their owner only", async () => {
  const folder = join(createFolder("files"), "new");
  const path = join(folder, "data.db");
  await execute(await serve(path), "a");
  expect([modeOf(folder), ...modesOf(path)]).toEqual(["700", "600", "600", "600", "600", "600"]);
});

it("keeps the mode of a folder that exists, and of a file that others were given access to", async () => {
  const folder = join(createFolder("files"), "own");
  mkdirSync(folder, { mode: 0o755 });
  const path = join(folder, "data.db");
  const first = await serve(path);
  await first.close();
  chmodSync(path, 0o640);
  await execute(await serve(path), "a");
  expect([modeOf(folder), modeOf(path), modeOf(`${path}-wal`)]).toEqual(["755", "640", "640"]);
});

it("takes the access of others away when it migrates a file, and logs it", async () => {
  const path = join(createFolder("files"), "data.db");
  createFormat4(path);
  expect(modeOf(path)).toBe("644");
  const server = await startTestServer("start", { config: toConfig(path) });
  expect(modesOf(path)).toEqual(["600", "600", "600", "600", "600"]);
  const lines = server.logs.map(({ message }) => message).filter((message) => message.startsWith("The data file"));
  expect(lines).toEqual([
    "The data file was migrated from format 4 to 13",
    "The data file can now be read by its owner only",
  ]);
});

it("refuses to write once the data file is deleted, logs it once without a request, and still answers reads", async () => {
  const path = join(createFolder("files"), "data.db");
  const server = await serve(path);
  await execute(server, "before");
  await execute(server, "waits", "asks");
  rmSync(path);
  await eventually(() => expect(complaints(server)).toEqual([gone]));
  const answers = [
    await execute(server, "after"),
    await server.post("/workflows/asks/executions/waits/resume", { resumeData: 1 }),
    await server.post("/workflows/asks/executions/waits/cancel", {}),
    await server.post("/workflows/quick/stream", { input: {} }),
  ];
  for (const { status, headers } of answers) expect([status, headers.get("retry-after")]).toEqual([503, "1"]);
  expect((await server.get("/workflows/quick/executions/before/state")).body.data.status).toBe("completed");
  expect((await server.get("/workflows/quick/executions/after/state")).status).toBe(404);
  expect(complaints(server)).toEqual([gone]);
});

/** The server looks for its file every 100 ms. */
async function expectRefused(server: TestServer): Promise<void> {
  let count = 0;
  await eventually(async () => expect((await execute(server, `refused-${count++}`)).status).toBe(503));
}

it.each(["", "-wal"])("soon answers no write with 200 after data.db%s is deleted", async (suffix) => {
  const path = join(createFolder("files"), "data.db");
  const server = await serve(path);
  await execute(server, "before");
  rmSync(path + suffix);
  await expectRefused(server);
});

it("leaves a file alone that was put in the place of the data file", async () => {
  const folder = createFolder("files");
  const path = join(folder, "data.db");
  const server = await serve(path);
  await execute(server, "before");
  new Store(join(folder, "other.db"), "normal").close();
  renameSync(join(folder, "other.db"), path);
  await expectRefused(server);
  await server.close();
  rmSync(`${path}-wal`, { force: true }); // of the deleted file
  const next = await serve(path);
  expect((await next.get("/workflows/quick/executions")).body.data.items).toEqual([]);
});

it("writes again by itself when the data file is back", async () => {
  const path = join(createFolder("files"), "data.db");
  const server = await serve(path);
  renameSync(path, `${path}.away`);
  await expectRefused(server);
  renameSync(`${path}.away`, path);
  await eventually(() => expect(server.logs.at(-1)!.message).toBe("The store can be written again"));
  expect((await execute(server, "a")).body.data.status).toBe("completed");
});

it("keeps the write-ahead log small, so that no request waits for a long checkpoint", async () => {
  const path = join(createFolder("files"), "data.db");
  const server = await serve(path);
  const input = { pad: "x".repeat(1_000_000) };
  for (let i = 0; i < 30; i++) await server.post("/workflows/quick/execute", { input });
  expect(statSync(`${path}-wal`).size).toBeLessThan(10_000_000);
});

it("tells whether the store can be written", async () => {
  const path = join(createFolder("files"), "data.db");
  const parts = {
    sseBufferBytes: 1,
    runningExecutions: 1,
    queuedExecutions: 1,
    waitingExecutions: 10,
    executionBytes: 1_000,
    conversationBytes: 33_554_432,
    logger: createTestLogger([]),
  };
  const { engine } = embedded({ path }).open({ root: "/", ...parts });
  onTestFinished(() => engine.close({ drainMs: 0 }));
  expect(engine.isWritable()).toBe(false); // it is not open
  await engine.open();
  expect(engine.isWritable()).toBe(true);
  renameSync(path, `${path}.away`);
  expect(engine.isWritable()).toBe(false);
  renameSync(`${path}.away`, path);
  await eventually(() => expect(engine.isWritable()).toBe(true));
});
