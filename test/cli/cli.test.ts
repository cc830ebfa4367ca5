import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { agentserve, bin, run, withoutActivity } from "../harness/cli.ts";
import { holdDefaultPort } from "../harness/default-port.ts";
import { runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";
import { post } from "./call/stage.ts";

const config = `import { defineConfig } from "agentserve";\nexport default defineConfig({ server: { port: 0 } });\n`;
const starter = ["--config", "templates/starter/agents.config.ts", "--data", ":memory:"];
const url = /http:\/\/\S+:(\d+)/;

describe("agentserve", () => {
  it("shows the flags of dev and start in their help", async () => {
    for (const command of ["dev", "start"]) {
      const { stdout } = await runHere([command, "--help"]);
      for (const text of ["--config <file>", "--port <number>", "--host <name>", "--data <file>"])
        expect(stdout).toContain(text);
    }
  });

  it("--version prints the version of the package", async () => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));
    expect((await agentserve(["--version"]).ended).stdout).toBe(`${version}\n`);
  });

  it("says under a Node that is too old which one it needs", async () => {
    const old = `Object.defineProperty(process.versions, "node", { value: "20.19.0" }); await import(${JSON.stringify(bin)});`;
    const { code, stderr } = await run(process.execPath, ["--input-type=module", "-e", old]).ended;
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^error agentserve needs Node 22\.22 or newer; this is 20\.19\.0\nhint  .*node@24\n$/),
    ]);
  });
});

describe.each(["dev", "start"])("agentserve %s", (command) => {
  it("serves the starter and answers every endpoint of its agent, with no API key", async () => {
    const child = agentserve([command, ...starter, "--port", "0"]);
    const [base] = await child.waitFor(url);
    const ask = async (endpoint: string, body: object) =>
      (await post(`${base}/agents/assistant/${endpoint}`, body)).text();
    const workflows = await (await fetch(`${base}/workflows`)).json();
    expect(workflows).toMatchObject({ success: true, data: [{ id: "approval", stepsCount: 3 }] });
    expect(await (await fetch(`${base}/hello`)).json()).toEqual({ hello: "world" });
    expect(await (await fetch(`${base}/agents`)).json()).toMatchObject({ data: [{ id: "assistant", status: "idle" }] });
    const detail = (await (await fetch(`${base}/agents/assistant`)).json()) as { data: { instructions?: string } };
    expect("instructions" in detail.data).toBe(command === "dev");
    const input = "What is the weather in Berlin?";
    const found = { city: "Berlin", sky: "blue", celsius: 21 };
    expect(JSON.parse(await ask("text", { input }))).toMatchObject({
      data: { steps: 2, toolResults: [{ output: found }] },
    });
    const schema = { type: "object", properties: { title: { type: "string" } }, required: ["title"] };
    expect(JSON.parse(await ask("object", { input: "two words", schema })).data).toEqual({ title: "two words" });
    const words = (text: string) => [...text.matchAll(/"delta":"(.*?)"/g)].map(([, word]) => word);
    expect(words(await ask("stream", { input: "one two three" }))).toEqual(["one ", "two ", "three"]);
    expect(await ask("stream-object", { input: "two words", schema })).toContain(
      '{"type":"partial-object","object":{"title":"two "}}',
    );
    const message = { id: "m", role: "user", parts: [{ type: "text", text: "hello there" }] };
    const chat = await ask("chat", { id: "c", messages: [message], trigger: "submit-message" });
    expect(words(chat)).toEqual(["hello ", "there"]);
    expect(chat).toMatch(/data: \[DONE\]\n\n$/);
    child.process.kill("SIGTERM");
    const { code, stderr } = await child.ended;
    expect([code, withoutActivity(stderr)]).toEqual([0, ""]);
  });

  it("continues to serve when the reader of its output has closed the pipes", async () => {
    const child = agentserve([command, ...starter.slice(0, 2), "--data", ":memory:", "--port", "0"]);
    const [base] = await child.waitFor(url);
    const exit = once(child.process, "exit");
    for (const name of ["stdout", "stderr"] as const) child.process[name]!.destroy();
    for (let n = 0; n < 3; n++) {
      const answer = await post(`${base}/workflows/approval/execute`, { input: { amount: 1, reason: "it logs" } });
      expect(await answer.json()).toMatchObject({ data: { status: "completed" } });
    }
    child.process.kill("SIGTERM");
    expect(await exit).toEqual([0, null]);
  });

  it("suspends the starter's approval, and resumes it after a restart", async () => {
    const data = join(createProject({}), "data.db");
    const serve = async () => {
      const child = agentserve([command, ...starter.slice(0, 2), "--data", data, "--port", "0"]);
      const [base] = await child.waitFor(url);
      return { child, base };
    };
    const ask = async (address: string, body: object) => (await post(address, body)).json();
    const first = await serve();
    const asked = await ask(`${first.base}/workflows/approval/execute`, {
      input: { amount: 500, reason: "a chair" },
      options: { executionId: "chair-1" },
    });
    expect(asked.data).toMatchObject({
      status: "suspended",
      suspension: { reason: "Approve 500 for a chair?", stepId: "decide" },
    });
    first.child.process.kill("SIGTERM");
    expect((await first.child.ended).code).toBe(0);
    const second = await serve();
    const done = await ask(`${second.base}/workflows/approval/executions/chair-1/resume`, {
      resumeData: { approved: true },
    });
    expect(done.data).toMatchObject({
      status: "completed",
      startAt: asked.data.startAt,
      result: { approved: true, amount: 500 },
    });
  });

  it("takes the port of a flag before that of PORT, and PORT before the config", async () => {
    const folder = createProject({ "agents.config.ts": config });
    const busy = createServer().listen(0, "127.0.0.1");
    await once(busy, "listening");
    const { port } = busy.address() as { port: number };
    const env = { ...process.env, PORT: String(port) };
    const taken = await runHere([command], { cwd: folder, env });
    expect([taken.code, taken.stderr]).toEqual([
      1,
      `error Port ${port} is already in use\nhint  stop the other process, or choose another port with --port\n`,
    ]);
    const child = agentserve([command, "--port", "0", "--host", "localhost"], { cwd: folder, env });
    expect((await child.waitFor(url))[0]).toMatch(/^http:\/\/localhost:/);
    busy.close();
  });

  it("listens on this machine only when HOST is empty, and takes a folder for --config", async () => {
    const folder = createProject({ "agents.config.ts": config });
    const child = agentserve([command, "--config", folder], { env: { ...process.env, HOST: "", PORT: "" } });
    expect((await child.waitFor(url))[0]).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  });

  it("refuses a --port that is not a number", async () => {
    const { code, stderr } = await runHere([command, ...starter, "--port", "80x"]);
    expect([code, stderr]).toEqual([2, 'error --port: expected a port number from 0 to 65535, found "80x"\n']);
  });

  it("names the missing config file when there is no project", async () => {
    const folder = createProject({});
    const { code, stderr } = await runHere([command], { cwd: folder });
    expect([code, stderr]).toEqual([1, expect.stringContaining(`error agents.config.ts not found in ${folder}\n`)]);
  });
});

it("serves on the next free port in dev if the default one is taken, and refuses to start in start", async () => {
  const files = { "agents.config.ts": "export default {};\n" };
  await holdDefaultPort();
  const dev = agentserve(["dev"], { cwd: createProject(files), env: { ...process.env, PORT: "", HOST: "" } });
  const [, port] = await dev.waitFor(url);
  expect(Number(port)).toBeGreaterThan(3141);
  await dev.waitFor(new RegExp(`! port 3141 is in use · using ${port}\n`));
  const { code, stderr } = await runHere(["start"], { cwd: createProject(files) });
  expect([code, stderr]).toEqual([1, expect.stringContaining("error Port 3141 is already in use")]);
  const asked = createProject({ "agents.config.ts": "export default { server: { port: 3141 } };\n" });
  expect(await runHere(["dev"], { cwd: asked })).toMatchObject({ code: 1, stderr });
});
