// What happens to executions that wait when the config changes, or the server is closed and started again.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { defineWorkflow, embedded, type Config } from "agentserve";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { toProject } from "../../../src/config/load.ts";
import type { ServerParts } from "../../../src/server/assemble.ts";
import { openServer, type OpenServer } from "../../../src/server/create.ts";
import { createFolder } from "../../harness/folders.ts";
import { createGates } from "../../harness/gates.ts";
import { createTestLogger, type LogRecord } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";

let gates = createGates();
let began: string[] = [];
beforeEach(() => {
  gates = createGates();
  began = [];
});

interface Options {
  readonly limit?: number | undefined;
  readonly version?: number;
  readonly recovery?: "resume" | "fail";
}
const createWorkflow = ({ limit, version = 1, recovery = "resume" }: Options = {}) =>
  defineWorkflow({ id: "w", recovery, ...(limit !== undefined && { concurrency: { limit } }) })
    .andThen({
      id: "work",
      execute: async ({ executionId }) => {
        began.push(executionId);
        await gates.pass(executionId);
      },
    })
    .andThen({ id: "say", execute: () => ({ version }) });
const createFile = (): string => {
  const folder = createFolder("concurrency");
  return join(folder, "data.db");
};
const toConfig = (file: string, options: Options, more: Config = {}): Config => ({
  workflows: [createWorkflow(options)],
  backend: embedded({ path: file }),
  server: { limits: { drainMs: 1, runningExecutions: 10 } },
  ...more,
});
const open = (config: Config, parts: Partial<ServerParts> = {}): OpenServer & { logs: LogRecord[] } => {
  const logs: LogRecord[] = [];
  const server = openServer(toProject(config), { mode: "start", logger: createTestLogger(logs), ...parts });
  onTestFinished(() => server.close());
  return Object.defineProperty(server, "logs", { value: logs }) as OpenServer & { logs: LogRecord[] };
};

const call = async (server: OpenServer, path: string, json?: unknown): Promise<any> => {
  const init = json !== undefined && {
    method: "POST",
    headers: { "content-type": "application/json", prefer: "respond-async" },
    body: JSON.stringify(json),
  };
  const response = await server.fetch(new Request(`http://localhost${path}`, init || {}));
  const text = await response.text();
  return path === "/metrics" ? text : { status: response.status, ...JSON.parse(text) };
};
const begin = async (server: OpenServer, ...ids: string[]) => {
  for (const executionId of ids)
    expect((await call(server, "/workflows/w/execute", { input: {}, options: { executionId } })).status).toBe(202);
};
const stateOf = async (server: OpenServer, id: string) =>
  (await call(server, `/workflows/w/executions/${id}/state`)).data;
const ends = (server: OpenServer, id: string, status = "completed") =>
  eventually(async () => expect(await stateOf(server, id)).toMatchObject({ status }));

it("continues queued executions in the order of their start after a restart, within the limit", async () => {
  const config = toConfig(createFile(), { limit: 2 });
  const first = open(config);
  const ids = ["e1", "e2", "e3", "e4", "e5"];
  await begin(first, ...ids);
  await Promise.all(["e1", "e2"].map((id) => gates.reached(id)));
  await first.close();
  expect(began).toEqual(["e1", "e2"]);
  began = [];
  gates = createGates();
  const second = open(config);
  await begin(second, "e6"); // it is behind those of the last process
  await Promise.all(["e1", "e2"].map((id) => gates.reached(id)));
  for (const id of [...ids, "e6"]) expect((await stateOf(second, id)).status).toBe("running");
  expect(began).toEqual(["e1", "e2"]);
  gates.open("e1");
  await gates.reached("e3");
  for (const id of [...ids, "e6"]) gates.open(id);
  for (const id of [...ids, "e6"]) await ends(second, id);
  expect(began).toEqual([...ids, "e6"]);
});

it("lets more executions run after a save with a higher limit, and fewer after one with a lower limit", async () => {
  const file = createFile();
  const server = open(toConfig(file, { limit: 1 }));
  await begin(server, "e1", "e2", "e3", "e4", "e5");
  await gates.reached("e1");
  server.swap(toProject(toConfig(file, { limit: 3 })));
  expect(began).toEqual(["e1"]);
  await begin(server, "e6"); // a change of the group
  await Promise.all(["e2", "e3"].map((id) => gates.reached(id)));
  server.swap(toProject(toConfig(file, { limit: 1 })));
  for (const id of ["e1", "e2"]) gates.open(id);
  for (const id of ["e1", "e2"]) await ends(server, id);
  expect(began).toEqual(["e1", "e2", "e3"]);
  gates.open("e3");
  await gates.reached("e4");
  server.swap(toProject(toConfig(file, {}))); // no limit any more
  gates.open("e4");
  await Promise.all(["e5", "e6"].map((id) => gates.reached(id)));
  for (const id of ["e5", "e6"]) gates.open(id);
  await ends(server, "e6");
});

it("holds no version of the config for queued executions, which run on the newest code", async () => {
  const file = createFile();
  let disposed = 0;
  const server = open(toConfig(file, { limit: 1, version: 1 }, { onDispose: () => void disposed++ }), { mode: "dev" });
  await begin(server, "e1", "e2", "e3");
  await gates.reached("e1");
  const former = server.snapshot;
  expect(former.holders().get("execution")).toBe(1);
  server.swap(toProject(toConfig(file, { limit: 1, version: 2 })));
  for (const id of ["e1", "e2", "e3"]) gates.open(id);
  for (const id of ["e1", "e2", "e3"]) await ends(server, id);
  expect((await stateOf(server, "e1")).result).toEqual({ version: 1 });
  expect((await stateOf(server, "e2")).result).toEqual({ version: 2 });
  await eventually(() => expect(disposed).toBe(1));
});

it("holds no version of the config for a resumed execution in the queue", async () => {
  const server = open(toConfig(createFile(), { limit: 1 }));
  await begin(server, "e1", "e2");
  await gates.reached("e1");
  await call(server, "/workflows/w/executions/e2/suspend", {});
  await ends(server, "e2", "suspended");
  const resumed = call(server, "/workflows/w/executions/e2/resume", {});
  await ends(server, "e2", "running");
  expect(server.snapshot.holders().get("execution")).toBe(1);
  for (const id of ["e1", "e2"]) gates.open(id);
  await resumed;
  await ends(server, "e2");
});

it("suspends a queued execution at its turn if its workflow was removed", async () => {
  const file = createFile();
  const server = open(toConfig(file, { limit: 1 }));
  await begin(server, "e1", "e2");
  await gates.reached("e1");
  server.swap(toProject(toConfig(file, {}, { workflows: [] })));
  gates.open("e1");
  await ends(server, "e2", "suspended");
  expect((await stateOf(server, "e2")).suspension.reason).toBe("Workflow changed: workflow w no longer exists");
});

it("continues a queued execution with recovery: fail after a restart, because it was not interrupted", async () => {
  const config = toConfig(createFile(), { limit: 1, recovery: "fail" });
  const first = open(config);
  await begin(first, "e1", "e2");
  await gates.reached("e1");
  await first.close();
  const second = open(config);
  await ends(second, "e1", "error");
  await gates.reached("e2");
  gates.open("e2");
  await ends(second, "e2");
});

it("counts no crash of the process against a queued execution", async () => {
  const file = createFile();
  const config = toConfig(file, { limit: 1 });
  const crash = (): void => {
    const db = new DatabaseSync(file);
    db.exec("update process set clean = 0");
    db.close();
  };
  const crashesOf = () => {
    const db = new DatabaseSync(file);
    const rows = db.prepare("select id, crashes from executions order by number").all();
    db.close();
    return Object.fromEntries(rows.map(({ id, crashes }) => [id, crashes]));
  };
  const first = open(config);
  await begin(first, "e1", "e2", "e3");
  await gates.reached("e1");
  await first.close();
  const restart = async (crashes: number): Promise<OpenServer> => {
    crash();
    began = [];
    gates = createGates();
    const next = open(config);
    await stateOf(next, "e1");
    await gates.reached("e1");
    expect(crashesOf()).toEqual({ e1: crashes, e2: 0, e3: 0 });
    return next;
  };
  await (await restart(1)).close();
  const last = await restart(2); // the first one is a suspect now, and keeps its place before the others
  for (const id of ["e1", "e2", "e3"]) gates.open(id);
  for (const id of ["e1", "e2", "e3"]) await ends(last, id);
  expect(began).toEqual(["e1", "e2", "e3"]);
});

it("counts the crashes of an execution from its turn on", async () => {
  const file = createFile();
  const config = toConfig(file, { limit: 1 });
  const server = open(config);
  await begin(server, "e1", "e2");
  await gates.reached("e1");
  gates.open("e1");
  await gates.reached("e2");
  const isMarked = () => {
    const db = new DatabaseSync(file);
    const row = db.prepare("select isolated from executions where id = 'e2'").get();
    db.close();
    return row?.["isolated"];
  };
  expect(isMarked()).toBe(0);
  gates.open("e2");
  await ends(server, "e2");
});

it("runs queued executions on a server without recovery", async () => {
  const server = open(toConfig(createFile(), { limit: 1 }), { recovery: false });
  await begin(server, "e1", "e2");
  await gates.reached("e1");
  expect(began).toEqual(["e1"]);
  for (const id of ["e1", "e2"]) gates.open(id);
  for (const id of ["e1", "e2"]) await ends(server, id);
});

it("shows executions in the queue of a group as queued in the metrics, and their workflow as running", async () => {
  const server = open(toConfig(createFile(), { limit: 1 }));
  await begin(server, "e1", "e2", "e3");
  await gates.reached("e1");
  const metrics: string = await call(server, "/metrics");
  expect(metrics).toContain("\nagentserve_executions_running 1\n");
  expect(metrics).toContain("\nagentserve_executions_queued 2\n");
  expect((await call(server, "/workflows/w")).data.status).toBe("running");
  for (const id of ["e1", "e2", "e3"]) gates.open(id);
  for (const id of ["e1", "e2", "e3"]) await ends(server, id);
  expect(await call(server, "/metrics")).toContain("\nagentserve_executions_queued 0\n");
});

it("does not count the inputs of queued executions as data in flight", async () => {
  const limits = { inFlightBytes: 1_600_000, drainMs: 1 };
  const server = open(toConfig(createFile(), { limit: 1 }, { server: { limits } }));
  const input = { text: "x".repeat(100_000) };
  for (let n = 0; n < 20; n++) {
    const answer = await call(server, "/workflows/w/execute", { input, options: { executionId: `e${n}` } });
    expect(answer.status).toBe(202);
  }
  for (let n = 0; n < 20; n++) gates.open(`e${n}`);
  await ends(server, "e19");
});
