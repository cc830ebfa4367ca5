import { expect, it } from "vitest";
import { jwtAuth } from "../../src/auth/jwt.ts";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { describeServer, startServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

const secret = "x".repeat(32);

describeServer("GET /health and GET /ready", {}, (server) => {
  it("say that the server lives and is ready, without details", async () => {
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
    it("need no token", async () => {
      expect((await server.get("/health")).status).toBe(200);
      expect((await server.request("/ready", { method: "HEAD" })).status).toBe(200);
      expect((await server.get("/workflows")).status).toBe(401);
    });
  },
);

it("server.health: false removes both", async () => {
  const server = await startServer("in process", { config: { server: { health: false } } });
  for (const path of ["/health", "/ready"]) expect((await server.get(path)).status).toBe(404);
  expect((await server.get("/doc")).body.paths).not.toHaveProperty("/health");
  await server.close();
});

it.each(["get", "all"])("a custom route replaces the built-in one (app.%s)", async (method) => {
  const configureApp = (app: any) => app[method]("/health", () => ({ own: true }));
  const auth = jwtAuth({ secret, defaultPrivate: true, publicRoutes: ["GET /doc"] });
  const open = await startServer("in process", { config: { configureApp } });
  expect((await open.get("/health", { custom: true })).body).toEqual({ own: true });
  expect((await open.get("/ready")).status).toBe(200);
  expect((await open.get("/doc")).body.paths).not.toHaveProperty("/health");
  expect(open.logs.filter(({ level }) => level === "info")).toEqual([
    { level: "info", message: "configureApp replaces the built-in route GET /health", data: undefined },
  ]);
  await open.close();
  const closed = await startServer("in process", { config: { configureApp, auth } });
  expect((await closed.get("/health", { custom: true })).status, "the host decides about its own route").toBe(401);
  await closed.close();
});

it("after SIGTERM, start serves as before for drainNoticeMs while /ready is 503", async () => {
  const config = `import { defineConfig } from "agentserve";
    export default defineConfig({ server: { limits: { drainNoticeMs: 3_600_000 } } });`;
  const cwd = createProject({ "agents.config.ts": config });
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
