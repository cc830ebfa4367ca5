import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createServer, defineWorkflow, embedded, type Server } from "agentserve";
import { createFolder } from "../harness/folders.ts";

const approval = defineWorkflow({ id: "approval" }).andThen({
  id: "decide",
  execute: ({ suspend, resumeData }) => resumeData ?? suspend("Well?"),
});

it("refuses a second server on the file of the first at once, and serves it after the first is closed", async () => {
  const path = createPath();
  const first = create(path);
  await call(first, "/workflows/approval/execute", { input: {}, options: { executionId: "e" } });
  const refusal = `${path} is already open in this process: close() the other server first, or use another file`;
  expect(() => create(path)).toThrow(refusal);
  await first.close();
  const second = create(path);
  const { data } = await call(second, "/workflows/approval/executions/e/resume", { resumeData: { ok: true } });
  expect(data).toMatchObject({ status: "completed", result: { ok: true } });
});

it("refuses the second server on a file at its first request or listen, if both were created before either was used", async () => {
  const path = createPath();
  const [first, second, third] = [create(path), create(path), create(path)];
  await first.fetch(new Request("http://localhost/doc"));
  const refusal = "is already open in this process";
  await expect(second.fetch(new Request("http://localhost/doc"))).rejects.toThrow(refusal);
  await expect(third.listen({ port: 0 })).rejects.toThrow(refusal);
  expect((await first.fetch(new Request("http://localhost/doc"))).status).toBe(200);
  await first.close();
  expect((await second.fetch(new Request("http://localhost/doc"))).status).toBe(200);
});

it("waits for the first server on a file to close", async () => {
  const path = createPath();
  const [first, second] = [create(path), create(path)];
  await first.fetch(new Request("http://localhost/doc"));
  const closed = first.close();
  const response = second.fetch(new Request("http://localhost/doc"));
  await closed;
  expect((await response).status).toBe(200);
});

it("refuses a second server on the same file under another path", async () => {
  const path = createPath();
  const alias = `${createPath()}-folder`;
  symlinkSync(join(path, ".."), alias);
  const first = create(path);
  await first.fetch(new Request("http://localhost/doc"));
  expect(() => create(join(alias, "data.db"))).toThrow("is already open in this process");
});

it("opens any number of servers in memory", async () => {
  const servers = [create(":memory:"), create(":memory:")];
  for (const server of servers) expect((await server.fetch(new Request("http://localhost/doc"))).status).toBe(200);
});

function createPath(): string {
  const folder = createFolder("second");
  return join(folder, "data.db");
}

function create(path: string): Server {
  const server = createServer({ workflows: [approval], backend: embedded({ path }), logger: quiet });
  onTestFinished(() => server.close());
  return server;
}

const quiet = { info() {}, warn() {}, error() {} };

async function call(server: Server, path: string, body: object): Promise<any> {
  const headers = { "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  return (await server.fetch(new Request(`http://localhost${path}`, init))).json();
}
