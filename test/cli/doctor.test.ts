import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { doctor } from "../../src/cli/project/doctor.ts";
import { startIssuer, troubles } from "../auth/oidc/issuer.ts";
import { agentserve } from "../harness/cli.ts";
import { capture, runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";
import { post } from "./call/stage.ts";

const toConfig = (body: string) =>
  `import { defineAgent, defineConfig, jwtAuth, oidcAuth } from "agentserve";\nimport { echoModel } from "agentserve/models";\nexport default defineConfig({ server: { cors: { origin: ["http://localhost:5173"] } }, ${body} });\n`;
const agent = (model: string) => `defineAgent({ id: "helper", instructions: "Help.", model: ${model} })`;

/** `agentserve doctor --json` in this process: the command itself runs in a child of its own process. */
const examineHere = (cwd: string, env?: NodeJS.ProcessEnv) =>
  capture(() => doctor({ json: true }), { cwd, ...(env && { env }) });
async function examine(files: Record<string, string>, env: Record<string, string> = {}) {
  const cwd = createProject(files);
  const { code, stdout, stderr } = await examineHere(cwd, { ...process.env, ...env });
  return { cwd, code, stdout, stderr, ...JSON.parse(stdout) };
}
const found = (name: string, { findings }: { findings: { name: string }[] }) =>
  findings.filter((finding) => finding.name === name);

describe("agentserve doctor", () => {
  it("doctor finds no problem in a project that can be served, and leaves no file behind", async () => {
    const before = new Set(readdirSync(tmpdir()));
    const report = await examine({ "agents.config.ts": toConfig(`agents: [${agent("echoModel()")}]`) });
    expect(report).toMatchObject({ code: 0, ok: true, startMs: expect.any(Number), memory: expect.any(Number) });
    expect(report.findings.map(({ name, status }: Record<string, string>) => `${name} ${status}`)).toEqual([
      "node ok",
      "config ok",
      "model ok",
      "store ok",
      "keys ok",
      "routes ok",
      "start ok",
      "memory ok",
    ]);
    expect(readdirSync(report.cwd).toSorted()).toEqual(["agents.config.ts", "node_modules"]);
    const left = readdirSync(tmpdir()).filter((name) => !before.has(name) && name.startsWith("agentserve-doctor-"));
    expect(left).toEqual([]);
  });

  it("doctor inspects the configured backend, and never opens it", async () => {
    const backend = `{
      type: "shared",
      open() { writeFileSync("opened", ""); throw new Error("opened"); },
      inspect: async () => ({ place: "/somewhere", facts: ["1.0 MB"], isInUse: true, executions: { running: 2 } }),
    }`;
    const config = `import { writeFileSync } from "node:fs";\n${toConfig(`backend: ${backend}`)}`;
    const report = await examine({ "agents.config.ts": config });
    expect(report).toMatchObject({ code: 0, ok: true, startMs: expect.any(Number) });
    expect(found("store", report)).toMatchObject([
      { status: "ok", message: "/somewhere  ·  1.0 MB  ·  executions: 2 running  ·  in use by a running server" },
    ]);
    expect(readdirSync(report.cwd)).not.toContain("opened");
  });

  it("routes lists routes without opening the configured backend", async () => {
    const backend = `{ type: "shared", open() { throw new Error("opened"); } }`;
    const cwd = createProject({ "agents.config.ts": toConfig(`backend: ${backend}`) });
    const { code, stderr } = await runHere(["routes"], { cwd });
    expect([code, stderr]).toEqual([0, ""]);
  });

  it("doctor says why a backend cannot be inspected", async () => {
    const backend = `{ type: "shared", open() {}, inspect: () => Promise.reject(new Error("No connection to it")) }`;
    const report = await examine({ "agents.config.ts": toConfig(`backend: ${backend}`) });
    expect(report).toMatchObject({ code: 1, ok: false });
    expect(found("store", report)).toMatchObject([{ status: "failed", message: "No connection to it" }]);
  });

  it("doctor prints one line per finding without --json", async () => {
    const cwd = createProject({ "agents.config.ts": toConfig("") });
    const { code, stdout } = await agentserve(["doctor"], { cwd }).ended;
    expect(code).toBe(0);
    expect(stdout).toMatch(/^✓ node {5}24\..*\n✓ config {3}agents\.config\.ts: 0 agents, 0 workflows\n/);
    expect(stdout).toMatch(
      /✓ start {4}first response \d+ ms after this process started\n✓ memory {3}[\d.]+ MB resident\n$/,
    );
  });

  it("doctor says what is wrong with a config, and ends with 1", async () => {
    const report = await examine({ "agents.config.ts": toConfig("prot: 1") });
    expect(report).toMatchObject({ code: 1, ok: false });
    expect(found("config", report)).toMatchObject([
      { status: "failed", message: expect.stringContaining("agents.config.ts: prot: unknown key") },
    ]);
  });

  it("doctor names the API keys that it finds, .env included, and shows no value", async () => {
    const report = await examine(
      { "agents.config.ts": toConfig(""), ".env": "OPENAI_API_KEY=the-first-value\n" },
      { MISTRAL_API_KEY: "the-second-value" },
    );
    expect(found("keys", report)).toMatchObject([
      { message: expect.stringMatching(/MISTRAL_API_KEY.*OPENAI_API_KEY/) },
    ]);
    expect(report.stdout + report.stderr).not.toMatch(/the-(first|second)-value/);
  });

  it("doctor warns of each risky default", async () => {
    const report = await examine({
      "agents.config.ts": toConfig(`auth: jwtAuth({ secret: "short" })`),
    });
    expect(report.code).toBe(0);
    expect(found("risk", report)).toHaveLength(2);
  });

  it("doctor reads the keys of an OIDC issuer, which routes only names", async () => {
    const issuer = await startIssuer();
    onTestFinished(() => issuer.close());
    const auth = `auth: oidcAuth({ issuer: "${issuer.url}", audience: ["my-api", "web"] })`;
    const files = { "agents.config.ts": toConfig(auth) };
    const about = `tokens of ${issuer.url} for my-api or web`;
    const { stdout } = await runHere(["routes"], { cwd: createProject(files) });
    expect(stdout.trimEnd().split("\n").at(-1)).toBe(about);
    expect(issuer.count).toEqual({ discovery: 0, keys: 0 });

    const report = await examine(files);
    expect(report).toMatchObject({ code: 0, ok: true });
    expect(found("auth", report)).toEqual([{ name: "auth", status: "ok", message: `${about}  ·  1 key` }]);
    expect(issuer.count).toEqual({ discovery: 1, keys: 1 });

    issuer.answer = troubles["answers 500"];
    const failed = await examine(files);
    expect(failed).toMatchObject({ code: 1, ok: false });
    expect(found("auth", failed)).toMatchObject([
      { status: "failed", message: expect.stringMatching(/^GET \S+: expected status 200, found 500$/) },
    ]);
    issuer.answer = undefined;
    issuer.keys = [];
    expect(found("auth", await examine(files))).toMatchObject([{ status: "failed" }]);
  });

  it("doctor counts the executions of a store, and says that a server uses it", async () => {
    const cwd = createProject({
      "agents.config.ts": toConfig(""),
      "workflows/w.ts": `import { defineWorkflow } from "agentserve";\nexport const w = defineWorkflow({ id: "w" }).andThen({ id: "a", execute: ({ suspend }) => suspend() });`,
    });
    const server = agentserve(["start", "--port", "0"], { cwd });
    const [url] = await server.waitFor(/http:\/\/\S+?:\d+/);
    expect((await post(`${url}/workflows/w/execute`, { input: {} })).status).toBe(200);
    const look = async () => {
      const { stdout } = await examineHere(cwd);
      return found("store", JSON.parse(stdout))[0] as unknown as { status: string; message: string };
    };
    expect((await look()).message).toMatch(/^\.agentserve\/data\.db {2}· .* executions: 1 suspended {2}· {2}in use/);
    server.process.kill("SIGTERM");
    await server.ended;
    expect((await look()).message).toMatch(/executions: 1 suspended$/);
  });

  it("doctor says that a file is not an agentserve store", async () => {
    const cwd = createProject({ "agents.config.ts": toConfig("") });
    mkdirSync(join(cwd, ".agentserve"));
    writeFileSync(
      join(cwd, ".agentserve", "data.db"),
      "nothing of the kind, but long enough to be looked at".repeat(50),
    );
    const { code, stdout } = await examineHere(cwd);
    expect(code).toBe(1);
    expect(found("store", JSON.parse(stdout))).toMatchObject([
      { status: "failed", message: expect.stringContaining("is damaged or is not an agentserve store") },
    ]);
  });
});
