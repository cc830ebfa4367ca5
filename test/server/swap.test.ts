import { defineWebSocketHandler } from "h3";
import { defineConfig, defineWorkflow, type Config } from "agentserve";
import { expect, it, onTestFinished, vi } from "vitest";
import WebSocket from "ws";
import { toProject } from "../../src/config/load.ts";
import type { ServerParts } from "../../src/server/assemble.ts";
import { openServer, type OpenServer } from "../../src/server/create.ts";
import { chosenBackend } from "../harness/backends.ts";
import { createGates } from "../harness/gates.ts";
import { createTestLogger, type LogRecord } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

function open(config: Config, parts: Partial<ServerParts> = {}): OpenServer & { logs: LogRecord[] } {
  const logs: LogRecord[] = [];
  const project = toProject({ backend: chosenBackend.create(), ...config });
  const server = openServer(project, { mode: "dev", logger: createTestLogger(logs), ...parts });
  onTestFinished(() => server.close());
  return Object.defineProperty(server, "logs", { value: logs }) as OpenServer & { logs: LogRecord[] };
}
const says = (version: number, more: Config = {}): Config =>
  defineConfig({ ...more, configureApp: (app) => void app.get("/version", () => ({ version })) });
const ask = async (server: OpenServer, path: string, init?: RequestInit) =>
  (await server.fetch(new Request(`http://localhost${path}`, init))).json();
const post = (json: unknown): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(json),
});

it("swap serves the new config to new requests, and disposes of the one before", async () => {
  const onDispose = vi.fn();
  const server = open(says(1, { onDispose }));
  expect(await ask(server, "/version")).toEqual({ version: 1 });
  server.swap(toProject(says(2)));
  expect(await ask(server, "/version")).toEqual({ version: 2 });
  await eventually(() => expect(onDispose).toHaveBeenCalledTimes(1));
});

it("swap changes nothing when the new config cannot be served", async () => {
  const server = open(says(1));
  const hidden = defineConfig({ configureApp: (app) => void app.get("/workflows", () => "mine") });
  expect(() => server.swap(toProject(hidden))).toThrow("GET /workflows is unreachable");
  expect(await ask(server, "/version")).toEqual({ version: 1 });
});

it("swap leaves a running execution its code, and keeps its config until it has ended", async () => {
  const gates = createGates();
  const work = (version: number) =>
    defineWorkflow({ id: "work" })
      .andThen({ id: "wait", execute: async () => gates.pass("go") })
      .andThen({ id: "say", execute: () => ({ version }) });
  const onDispose = vi.fn();
  const server = open(says(1, { workflows: [work(1)], onDispose }));
  const running = ask(server, "/workflows/work/execute", post({ input: {} }));
  await gates.reached("go");
  server.swap(toProject(says(2, { workflows: [work(2)] })));
  expect(await ask(server, "/version")).toEqual({ version: 2 });
  expect(onDispose).not.toHaveBeenCalled();
  gates.open("go");
  expect(await running).toMatchObject({ data: { result: { version: 1 } } });
  await eventually(() => expect(onDispose).toHaveBeenCalledTimes(1));
  expect(await ask(server, "/workflows/work/execute", post({ input: {} }))).toMatchObject({
    data: { result: { version: 2 } },
  });
});

it("swap resumes an execution that was suspended before on the new code", async () => {
  const wait = (version: number) =>
    defineWorkflow({ id: "wait" }).andThen({
      id: "ask",
      execute: ({ resumeData, suspend }) => (resumeData ? { version } : suspend()),
    });
  const server = open(says(1, { workflows: [wait(1)] }));
  await ask(server, "/workflows/wait/execute", post({ input: {}, options: { executionId: "one" } }));
  server.swap(toProject(says(2, { workflows: [wait(2)] })));
  const resumed = await ask(server, "/workflows/wait/executions/one/resume", post({ resumeData: true }));
  expect(resumed).toMatchObject({ data: { status: "completed", result: { version: 2 } } });
});

it("swap sends later records to the logger of the new config", async () => {
  const [first, second] = [1, 2].map(() => ({ info: vi.fn(), warn: vi.fn(), error: vi.fn() }));
  const server = open({ logger: first! }, { logger: undefined as never });
  server.logger.info("one");
  server.swap(toProject({ logger: second! }));
  server.logger.info("two");
  expect([first!.info.mock.calls.length, second!.info.mock.calls.length]).toEqual([1, 1]);
  expect(second!.info.mock.calls[0]![0]).toBe("two");
});

it("swap keeps the limits that the server was opened with", async () => {
  const server = open({ server: { limits: { bodyBytes: 1_000 } } });
  server.swap(toProject({ server: { limits: { bodyBytes: 10 } } }));
  const answer = await server.fetch(new Request("http://localhost/agents/x/text", post({ input: "a".repeat(100) })));
  expect(answer.status).toBe(404); // read, not refused with 413
});

it("swap leaves a custom WebSocket open, and logs what keeps an older config in use", async () => {
  const onDispose = vi.fn();
  const configureApp: Config["configureApp"] = (app) =>
    void app.get("/mine", defineWebSocketHandler({ message: (peer, message) => void peer.send(message.text()) }));
  const server = open({ configureApp, onDispose }, { heldMs: 10 });
  const { url } = await server.listen({ port: 0 });
  const socket = new WebSocket(`${url.replace("http", "ws")}/mine`);
  await new Promise((done) => socket.once("open", done));
  server.swap(toProject({}));
  await eventually(() =>
    expect(server.logs).toContainEqual({
      level: "warn",
      message: "An older version of the config is still in use",
      data: { by: "1 socket" },
    }),
  );
  const echoed = new Promise((done) => socket.once("message", (data) => done(String(data))));
  socket.send("still here");
  expect(await echoed).toBe("still here");
  expect(onDispose).not.toHaveBeenCalled();
  socket.close();
  await eventually(() => expect(onDispose).toHaveBeenCalledTimes(1));
});

it("close disposes of the swapped config, and of those before it", async () => {
  const disposed: number[] = [];
  const server = open(says(1, { onDispose: () => void disposed.push(1) }));
  server.swap(toProject(says(2, { onDispose: () => void disposed.push(2) })));
  await server.close();
  expect(disposed.toSorted()).toEqual([1, 2]);
});
