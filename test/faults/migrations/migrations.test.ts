import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished } from "vitest";
import { inspect } from "../../../src/backends/embedded/file/inspect.ts";
import { Store } from "../../../src/backends/embedded/store/store.ts";
import { run } from "../../harness/cli.ts";
import { startServer, type TestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { createFile, createFormat4, prompts, ran, toConfig, toSuspendedConfig } from "./project.ts";

function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-migrations-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
function read<T>(file: string, sql: string): T[] {
  const database = new DatabaseSync(file, { readOnly: true });
  const rows = database.prepare(sql).all() as T[];
  database.close();
  return rows;
}
const formatOf = (file: string): unknown => read(file, "pragma user_version")[0];
const tablesOf = (file: string): string[] =>
  read<{ sql: string }>(file, "select sql from sqlite_master where sql is not null order by name").map(({ sql }) =>
    sql.replace(/\s+/g, " ").replace(/\( | \)| (?=,)/g, (part) => part.trim()),
  );

/** Everything in the file is there and continues. */
async function expectWhole(server: TestServer): Promise<void> {
  const stateOf = async (workflow: string, id: string): Promise<any> =>
    (await server.get(`/workflows/${workflow}/executions/${id}/state`)).body.data;
  expect(await stateOf("approve", "ended")).toMatchObject({
    status: "completed",
    result: { data: "yes", length: 1_200 },
  });
  expect(await stateOf("approve", "cancelled")).toMatchObject({ cancellation: { reason: "No longer needed" } });
  expect((await stateOf("fails", "failed")).status).toBe("error");
  expect(await stateOf("approve", "suspended")).toMatchObject({
    status: "suspended",
    suspension: { reason: "Approve?", data: { amount: 7 } },
    context: { tenant: "t", userId: "anna" },
  });
  const { body } = await server.post("/workflows/approve/executions/suspended/resume", { resumeData: "go" });
  expect(body.data).toMatchObject({ status: "completed", result: { data: "go", length: 1_200 } });
  await eventually(async () => expect((await stateOf("slow", "running")).status).toBe("completed"));
  expect(await stateOf("slow", "running")).toMatchObject({ result: { data: "once" } });
  const { events } = await server.get("/workflows/approve/executions/ended/stream");
  expect(events.map(({ type }) => type)).toContain("workflow-suspended");
  const { items } = (await server.get("/workflows/approve/executions?status=completed")).body.data;
  expect(items.map(({ executionId }: any) => executionId)).toEqual(["suspended", "ended"]);
  const options = { userId: "anna", conversationId: "c1" };
  expect((await server.post("/agents/talker/text", { input: "Which number?", options })).status).toBe(200);
}

it("brings a file of format 4 to the current format, and everything in it continues", async () => {
  const file = join(createFolder(), "data.db");
  createFormat4(file);
  expect(await inspect(file)).toMatchObject({
    facts: [expect.any(String), "format 4, is migrated to 10 at the next start"],
    executions: { running: 1, suspended: 1, completed: 1, error: 2 },
  });
  ran.length = 0;
  prompts.length = 0;
  const server = await startServer("in process", { config: toConfig(file) });
  onTestFinished(() => server.close());
  expect(formatOf(file)).toEqual({ user_version: 10 });
  await expectWhole(server);
  expect(ran).toEqual(["second"]);
  expect(prompts.join()).toContain("I remember 7.");
  expect(await inspect(file)).toMatchObject({ facts: [expect.any(String)], isInUse: true });
});

it.each([4, 6])("shows suspensions of a file of format %s with their kinds, and resumes them", async (format) => {
  const file = join(createFolder(), "data.db");
  createFile(file, `suspended-format-${format}`);
  expect(formatOf(file)).toEqual({ user_version: format });
  const server = await startServer("in process", { config: toSuspendedConfig(file) });
  onTestFinished(() => server.close());
  const stateOf = async (workflow: string, id: string): Promise<any> =>
    (await server.get(`/workflows/${workflow}/executions/${id}/state`)).body.data;
  const resume = async (workflow: string, id: string, body: object): Promise<any> =>
    (await server.post(`/workflows/${workflow}/executions/${id}/resume`, body)).body.data;
  const kindsOf = async (workflow: string): Promise<unknown[]> => {
    const { body } = await server.get(`/workflows/${workflow}/executions?status=suspended`);
    return body.data.items.map(({ executionId, suspension }: any) => [executionId, suspension.kind]);
  };

  const one = { kind: "person", stepId: "one", stepIndex: 0, reason: "one?", data: { id: "one" } };
  const two = { ...one, stepId: "two", reason: "two?", data: { id: "two" } };
  expect((await stateOf("asks", "step")).suspension).toMatchObject({ kind: "person", stepId: "ask", reason: "ask?" });
  expect((await stateOf("both", "two")).suspension).toMatchObject({ ...one, pending: [one, two] });
  expect((await stateOf("works", "request")).suspension).toMatchObject({
    kind: "request",
    stepId: "first",
    reason: "Stop",
  });
  expect(await kindsOf("asks")).toEqual([["step", "person"]]);
  expect(await kindsOf("both")).toEqual([["two", "person"]]);
  expect(await kindsOf("works")).toEqual([["request", "request"]]);

  expect(await resume("asks", "step", { resumeData: 1 })).toMatchObject({ status: "completed", result: { data: 1 } });
  const second = await resume("both", "two", { resumeData: 2, options: { stepId: "two" } });
  expect(second).toMatchObject({ status: "suspended", suspension: { kind: "person", stepId: "one" } });
  expect(await resume("both", "two", { resumeData: 1 })).toMatchObject({ status: "completed", result: [1, 2] });
  // The result of the step that was in flight is there already.
  expect(await resume("works", "request", {})).toMatchObject({ status: "completed", result: { data: "first" } });
});

it("makes the same tables as a new file has", () => {
  const folder = createFolder();
  const [old, fresh] = [join(folder, "old.db"), join(folder, "new.db")] as const;
  createFormat4(old);
  for (const file of [old, fresh]) new Store(file, "normal").close();
  expect(tablesOf(old)).toEqual(tablesOf(fresh));
  expect(tablesOf(old).join()).toContain("crashes integer");
});

it("refuses a file that is older than format 4, and leaves it as it is", () => {
  const file = join(createFolder(), "data.db");
  createFormat4(file);
  const database = new DatabaseSync(file);
  database.exec("pragma user_version = 3");
  database.close();
  expect(() => new Store(file, "normal")).toThrow(
    `${file} has format 3, but this version of agentserve reads format 10`,
  );
  expect(formatOf(file)).toEqual({ user_version: 3 });
});

it("loses nothing when the process is killed in the middle of a migration", async () => {
  const file = join(createFolder(), "data.db");
  createFormat4(file);
  const tables = tablesOf(file);
  const start = (at: number) => run(process.execPath, ["test/faults/migrations/host.ts", file, String(at)]).ended;
  for (const at of [2, 4, 6, 7, 8]) {
    expect((await start(at)).signal, `killed before statement ${at}`).toBe("SIGKILL");
    expect(formatOf(file)).toEqual({ user_version: 4 });
    expect(tablesOf(file)).toEqual(tables);
  }
  const server = await startServer("in process", { config: toConfig(file) });
  onTestFinished(() => server.close());
  await expectWhole(server);
  expect(formatOf(file)).toEqual({ user_version: 10 });
});
