import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished } from "vitest";
import { defineWorkflow } from "agentserve";
import { jwtAuth } from "../../src/auth/jwt.ts";
import { chosenBackend, onFile, type TestBackend } from "../harness/backends.ts";
import { agentserve } from "../harness/cli.ts";
import { createFolder } from "../harness/folders.ts";
import { createGates } from "../harness/gates.ts";
import { createProject } from "../harness/project.ts";
import { describeServer, startServer, startTestServer, targets } from "../harness/server.ts";
import { eventually, until } from "../harness/waiting.ts";

const secret = "x".repeat(32);

describeServer("GET /health and GET /ready", { only: ["in process", "start"] }, (server) => {
  it("answers GET /health and GET /ready without details", async () => {
    const health = await server.get("/health");
    expect([health.status, health.body]).toEqual([200, { success: true, data: { status: "ok" } }]);
    const ready = await server.get("/ready");
    expect([ready.status, ready.body]).toEqual([200, { success: true, data: { status: "ready" } }]);
    for (const { headers } of [health, ready]) expect(headers.get("cache-control")).toBe("no-store");
  });
});

describeServer(
  "health routes under a provider that closes everything",
  { config: { auth: jwtAuth({ secret, defaultPrivate: true, publicRoutes: ["GET /doc"], protect: ["ALL /**"] }) } },
  (server) => {
    it("answers GET /health and GET /ready without a token under a provider that closes everything", async () => {
      expect((await server.get("/health")).status).toBe(200);
      expect((await server.request("/ready", { method: "HEAD" })).status).toBe(200);
      expect((await server.get("/workflows")).status).toBe(401);
    });
  },
);

it("removes GET /health and GET /ready with server.health: false", async () => {
  const server = await startTestServer("in process", { config: { server: { health: false } } });
  for (const path of ["/health", "/ready"]) expect((await server.get(path)).status).toBe(404);
  expect((await server.get("/doc")).body.paths).not.toHaveProperty("/health");
});

it.each(["get", "all"])("lets a custom route of app.%s replace GET /health", async (method) => {
  const configureApp = (app: any) => app[method]("/health", () => ({ own: true }));
  const auth = jwtAuth({ secret, defaultPrivate: true, publicRoutes: ["GET /doc"] });
  const open = await startServer("in process", { config: { configureApp } });
  expect((await open.get("/health", { custom: true })).body).toEqual({ own: true });
  expect((await open.get("/ready")).status).toBe(200);
  expect((await open.get("/doc")).body.paths["/health"].get.tags).toEqual(["Your routes"]);
  expect(open.logs.filter(({ level }) => level === "info")).toEqual([
    { level: "info", message: "configureApp replaces the built-in route GET /health", data: undefined },
  ]);
  await open.close();
  const closed = await startTestServer("in process", { config: { configureApp, auth } });
  expect((await closed.get("/health", { custom: true })).status, "the host decides about its own route").toBe(401);
});

const longNotice = {
  "agents.config.ts": `import { defineConfig } from "agentserve";
    export default defineConfig({ server: { limits: { drainNoticeMs: 3_600_000 } } });`,
};

it("after SIGINT, start does not wait for load balancers", async () => {
  const child = agentserve(["start", "--port", "0", "--data", ":memory:"], { cwd: createProject(longNotice) });
  await child.waitFor(/http:\/\/\S+/);
  child.process.kill("SIGINT");
  expect(await child.ended).toMatchObject({ code: 0 });
});

it("after SIGTERM, start serves as before for drainNoticeMs while /ready is 503", async () => {
  const cwd = createProject(longNotice);
  const child = agentserve(["start", "--port", "0", "--data", ":memory:"], { cwd });
  const [base] = await child.waitFor(/http:\/\/\S+/);
  expect((await fetch(`${base}/ready`)).status).toBe(200);
  child.process.kill("SIGTERM");
  await eventually(async () => expect((await fetch(`${base}/ready`)).status).toBe(503));
  expect((await fetch(`${base}/health`)).status).toBe(200);
  expect((await fetch(`${base}/workflows`)).status).toBe(200);
  child.process.kill("SIGTERM");
  expect(await child.ended).toMatchObject({ code: 1 });
});

const quick = defineWorkflow({ id: "quick" }).andThen({ id: "only", execute: () => ({ done: true }) });

it.each(targets)("/ready is 503 while the store cannot be written, and 200 again after it (%s)", async (target) => {
  const folder = createFolder("ready");
  const file = join(folder, "data.db");
  const server = await startTestServer(target, { config: { workflows: [quick] }, backend: onFile(file) });
  const ready = async () => (await server.get("/ready")).status;
  const execute = async () => (await server.post("/workflows/quick/execute", { input: {} })).status;
  expect([await execute(), await ready()]).toEqual([200, 200]);
  const other = new DatabaseSync(file);
  onTestFinished(() => void (other.isOpen && other.close()));
  other.exec("pragma busy_timeout = 1000; begin immediate");
  expect(await execute()).toBe(503);
  const refused = await eventually(async () => {
    const answer = await server.get("/ready");
    expect(answer.status).toBe(503);
    return answer;
  });
  expect(refused.body).toEqual({ success: false, error: "Not ready" });
  expect(refused.headers.get("retry-after")).toBe("1");
  expect((await server.get("/health")).status).toBe(200);
  expect((await server.get("/workflows")).status).toBe(200);
  other.exec("rollback");
  // Without another request that writes: a load balancer sends none.
  await eventually(async () => expect(await ready()).toBe(200));
  expect(await execute()).toBe(200);
});

it("/ready is 503 once the store cannot be written, although no other request writes", async () => {
  const folder = createFolder("ready");
  const file = join(folder, "data.db");
  const server = await startTestServer("in process", { backend: onFile(file, { retention: false }) });
  const ready = async () => (await server.get("/ready")).status;
  expect(await ready()).toBe(200);
  const other = new DatabaseSync(file);
  onTestFinished(() => void (other.isOpen && other.close()));
  other.exec("pragma busy_timeout = 1000; begin immediate");
  await eventually(async () => expect(await ready()).toBe(503));
  other.exec("rollback");
  await eventually(async () => expect(await ready()).toBe(200));
});

it("/ready is 503 when three checks in a row have found that the store cannot be written", async () => {
  const answers = [false, false, true, false, false, false, true];
  let asked = 0;
  const failing: TestBackend = {
    name: "cannot always be written",
    create() {
      const backend = chosenBackend.create();
      return {
        ...backend,
        open(options) {
          const opened = backend.open(options);
          opened.engine.isWritable = () => answers[asked++] ?? true;
          return opened;
        },
      };
    },
  };
  const server = await startTestServer("in process", { backend: failing });
  const statuses = new Map<number, number>();
  await until(async () => {
    const { status } = await server.get("/ready");
    statuses.set(asked, status);
    return asked >= answers.length;
  }, "all checks");
  expect([...statuses]).toEqual([200, 200, 200, 200, 200, 503, 200].map((status, index) => [index + 1, status]));
});

it.each(["dev", "start"] as const)(
  "/ready is 503 until recovery has finished, and /health is 200 (%s)",
  async (target) => {
    const gates = createGates();
    const slow: TestBackend = {
      name: "recovers when it may",
      create() {
        const backend = chosenBackend.create();
        return {
          ...backend,
          open(options) {
            const opened = backend.open(options);
            const recover = opened.engine.recover.bind(opened.engine);
            opened.engine.recover = async (programOf) => {
              await gates.pass("recovery");
              return recover(programOf);
            };
            return opened;
          },
        };
      },
    };
    const server = await startServer(target, { backend: slow });
    onTestFinished(() => {
      gates.open("recovery"); // close() waits for it
      return server.close();
    });
    await gates.reached("recovery");
    expect((await server.get("/ready")).status).toBe(503);
    expect((await server.get("/health")).status).toBe(200);
    gates.open("recovery");
    await eventually(async () => expect((await server.get("/ready")).status).toBe(200));
  },
);
