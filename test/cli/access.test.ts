import { describe, expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";

const strong = "a secret of at least thirty-two bytes";
const define = (body: string): string =>
  `import { defineConfig, jwtAuth } from "agentserve";\nexport default defineConfig({ ${body} });\n`;
const noNotice = "limits: { drainNoticeMs: 0 }";
const closed = `server: { port: 0, cors: false, ${noNotice} }`;

describe("agentserve routes", () => {
  const cwd = () =>
    createProject({
      "agents.config.ts": define(`
        auth: jwtAuth({ secret: "${strong}", publicRoutes: ["GET /health", "POST /agents/open/*"], protect: ["GET /reports/*"] }),
        configureApp(app) {
          app.get("/health", () => "ok").get("/reports/:id", () => 1).get("/hello", () => 1).all("/any/**", () => 1);
        }`),
    });

  it("routes prints method, path, access, why and origin of every route", async () => {
    const { code, stdout, stderr } = await agentserve(["routes"], { cwd: cwd() }).ended;
    expect([code, stderr]).toEqual([0, ""]);
    const lines = stdout.split("\n").map((line) => line.split(/ {2,}/));
    expect(lines[0]).toEqual(["method", "path", "access", "why", "added by"]);
    for (const line of [
      ["GET", "/agents", "public", "opt-in mode", "agentserve"],
      ["POST", "/agents/:id/text", "protected", "protected by default, except POST /agents/open/*", "agentserve"],
      ["POST", "/workflows/:id/execute", "protected", "protected by default", "agentserve"],
      ["POST", "/workflows/:id/executions/:executionId/resume", "public", "opt-in mode", "agentserve"],
      ["GET", "/ws", "public", "a WebSocket", "agentserve"],
      ["GET", "/health", "public", "publicRoutes: GET /health", "configureApp"],
      ["GET", "/reports/:id", "protected", "protect: GET /reports/*", "configureApp"],
      ["GET", "/hello", "public", "opt-in mode", "configureApp"],
      ["ALL", "/any/**", "public", "opt-in mode", "configureApp"],
    ]) {
      expect(lines).toContainEqual(line);
    }
    const isClosed = lines.filter((line) => line[2] === "protected").length;
    expect(stdout).toContain(`${lines.length - 4 - isClosed} public routes, ${isClosed} protected`);
    // The console, which `start` does not serve unless the config says so, and the caller of its link.
    expect(lines).toContainEqual([
      "GET",
      "/console",
      "public",
      "publicRoutes: GET /console; only in dev",
      "agentserve",
    ]);
    const session = ["GET", "/console/session", "protected", "protected by default; only in dev", "agentserve"];
    expect(lines).toContainEqual(session);
    expect(stdout.split("\n").at(-2)).toBe(
      'in dev on this machine, the link of the console signs in the caller { id: "console" }, who may call every route',
    );
  });

  it("routes --json prints every route as JSON", async () => {
    const { stdout } = await agentserve(["routes", "--json"], { cwd: cwd() }).ended;
    expect(JSON.parse(stdout)).toContainEqual({
      method: "POST",
      path: "/agents/:id/text",
      access: "protected",
      why: "protected by default",
      except: ["POST /agents/open/*"],
      action: "agent.call",
      allows: "any caller",
      authorizedBy: [],
      from: "agentserve",
    });
  });

  const provider = (more = "") => `auth: jwtAuth({ secret: "${strong}"${more} })`;
  const files = {
    "workflows/payout.ts": `import { defineWorkflow } from "agentserve";
export const payout = defineWorkflow({ id: "payout", authorize: () => true });`,
  };
  const execute = "POST /workflows/:id/execute protected protected by default";
  const resume = "POST /workflows/:id/executions/:executionId/resume public opt-in mode";
  const state = "GET /workflows/:id/executions/:executionId/state public opt-in mode";
  const fork = "POST /workflows/:id/executions/:executionId/fork protected protected by default";
  const commands = ["trigger", "pause", "resume"].map(
    (name) => `POST /schedules/:id/${name} protected protected by default`,
  );
  const text = "POST /agents/:id/text protected protected by default";
  const logs = "GET /api/logs public opt-in mode";
  const hello = "GET /hello public opt-in mode";
  const metrics = "GET /metrics protected protected by default";
  const remove = "DELETE /agents/:id/conversations/:conversationId protected protected by default";
  const usage = "GET /agents/:id/usage protected protected by default";

  it.each<[string, string, Record<string, string>, string[]]>([
    [
      "no rule",
      provider(),
      {},
      [
        execute,
        resume,
        state,
        text,
        usage,
        logs,
        metrics,
        hello,
        ...[fork, ...commands].map((line) => `${line}; closed without authorize`),
        `${remove}; of another user: closed without authorize`,
      ],
    ],
    [
      "no provider",
      "agents: []",
      {},
      [
        remove.replace("protected protected by default", "public no auth provider"),
        ...[fork, ...commands].map((line) => line.replace(/ protected .*/, " public no auth provider")),
      ],
    ],
    [
      "ownership",
      provider(", ownership: true"),
      {},
      [
        execute,
        ...[resume, state, usage].map((line) => `${line}; owner only`),
        text,
        logs,
        metrics,
        hello,
        ...[fork, ...commands].map((line) => `${line}; closed without authorize`),
      ],
    ],
    [
      "authorize",
      `${provider(", ownership: true")}, authorize: () => true`,
      {},
      [
        ...[execute, resume, state, fork, ...commands, text, usage, logs, metrics].map(
          (line) => `${line}; by authorize`,
        ),
        `${remove}; by authorize; of another user: by authorize`,
        hello,
      ],
    ],
    [
      "authorize of a workflow",
      provider(),
      files,
      [
        ...[execute, resume, state].map((line) => `${line}; by authorize of payout`),
        ...[fork, ...commands].map((line) => `${line}; by authorize of payout; others closed without authorize`),
        text,
        logs,
        metrics,
        hello,
      ],
    ],
    [
      "authorize of a workflow, and ownership",
      provider(", ownership: true"),
      files,
      [
        `${execute}; by authorize of payout`,
        ...[resume, state].map((line) => `${line}; by authorize of payout; others owner only`),
        text,
        logs,
      ],
    ],
  ])("routes says who may use a route under %s", async (_, body, more, expected) => {
    const config = define(`${body && `${body}, `}configureApp(app) { app.get("/hello", () => 1); }`);
    const { stdout } = await runHere(["routes"], { cwd: createProject({ "agents.config.ts": config, ...more }) });
    const lines = stdout.split("\n").map((line) => line.split(/ {2,}/).slice(0, 4).join(" "));
    for (const line of expected) expect(lines).toContain(line);
  });

  it("routes runs beside a server that holds the store", async () => {
    const project = createProject({ "agents.config.ts": define(`server: { port: 0 }`) });
    const child = agentserve(["start"], { cwd: project });
    await child.waitFor(/http:/);
    const { code, stdout } = await runHere(["routes"], { cwd: project });
    expect([code, stdout]).toEqual([0, expect.stringContaining("no auth provider")]);
  });
});

describe.each(["dev", "start"])("agentserve %s", (command) => {
  const serve = (body: string, args: string[] = []) => {
    const cwd = createProject({ "agents.config.ts": define(body) });
    return runHere([command, "--data", ":memory:", ...args], { cwd, interrupts: true });
  };

  it("prints at the start how many routes are public and how many protected", async () => {
    const { stdout } = await serve(closed);
    // `dev` serves the console: its page, its files and the exchange of its link are public.
    const isDev = command === "dev";
    expect(stdout).toMatch(isDev ? /^ {2}54 public routes, 0 protected/m : /^ {2}48 public routes, 0 protected/m);
    const out = await serve(
      `${closed}, auth: jwtAuth({ secret: "${strong}", defaultPrivate: true, webSockets: true })`,
    );
    expect(out.stdout).toMatch(isDev ? /^ {2}5 public routes, 49 protected/m : /^ {2}2 public routes, 46 protected/m);
  });

  const rows: [string, string, string[], RegExp | false][] = [
    ["nothing", closed, [], false],
    [
      "nothing, if a proxy authenticates",
      `server: { port: 0, cors: false, authenticatedByProxy: true, ${noNotice} }`,
      ["--host", "0.0.0.0"],
      false,
    ],
    [
      "cors that is not set",
      `server: { port: 0, ${noNotice} }`,
      [],
      /^warning Pages of any origin can call this server: server.cors.origin is not set\nhint {4}set server\.cors/,
    ],
    [
      "no provider on a host that others reach",
      closed,
      ["--host", "0.0.0.0"],
      /^warning No auth provider: anyone who can reach 0\.0\.0\.0 can call every route\nhint {4}set auth/,
    ],
    [
      "resume that anybody may call",
      `${closed}, auth: jwtAuth({ secret: "${strong}" })`,
      ["--host", "0.0.0.0"],
      /^warning Anyone who knows the id of an execution can read, suspend and resume it\nhint {4}set ownership/,
    ],
    ["nothing, with ownership", `${closed}, auth: jwtAuth({ secret: "${strong}", ownership: true })`, [], false],
    [
      "nothing, with protect",
      `${closed}, auth: jwtAuth({ secret: "${strong}", protect: ["ALL /workflows/:id/executions/*"] })`,
      [],
      false,
    ],
    [
      "nothing, with authorize",
      `${closed}, auth: jwtAuth({ secret: "${strong}" }), authorize: ({ user }) => user !== undefined`,
      [],
      false,
    ],
    ["nothing, in opt-out mode", `${closed}, auth: jwtAuth({ secret: "${strong}", defaultPrivate: true })`, [], false],
  ];
  it.each(rows)("warns at its start of %s", async (_, body, args, warning) => {
    const { code, stderr } = await serve(body, args);
    expect(code).toBe(0);
    if (warning) expect(stderr).toMatch(warning);
    else expect(stderr).toBe("");
    expect(stderr.match(/^warning/gm) ?? []).toHaveLength(warning ? 1 : 0);
  });

  it("warns in dev of a jwtAuth secret under 32 bytes, and refuses it in start", async () => {
    const weak = `${closed}, auth: jwtAuth({ secret: "x".repeat(31), ownership: true })`;
    const message = "The secret of jwtAuth() is shorter than 32 bytes and can be guessed";
    if (command === "dev") {
      expect(await serve(weak)).toMatchObject({ code: 0, stderr: expect.stringContaining(`warning ${message}\n`) });
    } else {
      const hint = "hint  generate one: openssl rand -base64 48\n";
      expect(await serve(weak)).toMatchObject({ code: 1, stdout: "", stderr: `error ${message}\n${hint}` });
    }
    const enough = await serve(`${closed}, auth: jwtAuth({ secret: "é".repeat(16), ownership: true })`);
    expect(enough).toMatchObject({ code: 0, stderr: "" }); // 32 bytes
  });
});
