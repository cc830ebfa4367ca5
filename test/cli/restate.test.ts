import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { freePort } from "../harness/free-port.ts";
import { createProject } from "../harness/project.ts";
import { post } from "./call/stage.ts";

/** A project on a Restate server that does not run. The ports are in `.env`: the config is compiled once. */
async function createApart(serve = "") {
  const [dead, port] = [await freePort(), await freePort()];
  const cwd = createProject({
    "agents.config.ts": `import { defineConfig, defineWorkflow } from "agentserve";
import { restate } from "agentserve/backends/restate";
export default defineConfig({
  server: { cors: { origin: ["http://localhost:5173"] } },
  workflows: [defineWorkflow({ id: "w" }).andThen({ id: "a", execute: () => 1 })],
  backend: restate({
    ingress: process.env.DEAD!,
    admin: process.env.DEAD!,
    name: "app",
    serve: { port: Number(process.env.RESTATE_PORT), ${serve} },
  }),
});
`,
  });
  writeFileSync(join(cwd, ".env"), `DEAD=http://127.0.0.1:${dead}\nRESTATE_PORT=${port}\n`);
  return cwd;
}

describe("a config with restate()", () => {
  it.each(["start", "dev"])("%s refuses --data with the Restate backend", async (command) => {
    const cwd = await createApart();
    const { code, stderr } = await agentserve([command, "--data", "x.db", "--port", "0"], { cwd }).ended;
    expect([code, stderr.trim()]).toEqual([2, "error --data: the restate backend has no data file"]);
  });

  it("doctor refuses --data with the Restate backend, and says that Restate cannot be reached", async () => {
    const cwd = await createApart();
    const doctor = async (...flags: string[]) => {
      const { code, stdout } = await agentserve(["doctor", "--json", ...flags], { cwd }).ended;
      const { findings } = JSON.parse(stdout) as { findings: { name: string; message: string }[] };
      return [code, findings.find(({ name }) => name === "store")!.message];
    };
    expect(await doctor("--data", "x.db")).toEqual([1, "--data: the restate backend has no data file"]);
    expect(await doctor()).toEqual([
      1,
      expect.stringMatching(/^Restate cannot be reached at http:\/\/127\.0\.0\.1:\d+$/),
    ]);
  });

  it("start serves while Restate is down: 503 with Retry-After, not ready, and one line that says why", async () => {
    const cwd = await createApart();
    const env = { ...process.env, AGENTSERVE_DATA: "x.db" };
    const child = agentserve(["start", "--port", "0"], { cwd, env });
    const [url] = await child.waitFor(/http:\/\/\S+?:\d+/);
    const answer = await post(`${url}/workflows/w/execute`, { input: {} });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(await answer.json()).toEqual({ success: false, error: "Restate cannot be reached" });
    expect((await fetch(`${url}/workflows`)).status).toBe(200);
    expect((await fetch(`${url}/ready`)).status).toBe(503);
    expect((await fetch(`${url}/health`)).status).toBe(200);
    child.process.kill("SIGTERM");
    const { code, stderr } = await child.ended;
    expect(code).toBe(0);
    expect(stderr).toContain("AGENTSERVE_DATA is ignored: the restate backend has no data file");
    const lines = stderr.split("\n").filter((line) => line.includes("Registration with Restate failed"));
    expect(lines).toEqual([expect.stringContaining("ECONNREFUSED")]);
    expect(stderr).not.toContain("    at "); // no stack
  });

  it("start --strict refuses a Restate port that other machines can reach without identity keys", async () => {
    const open = createApart('host: "0.0.0.0"');
    const warned = agentserve(["start", "--strict", "--port", "0"], { cwd: await open });
    expect(await warned.ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Anyone who can reach 0\.0\.0\.0:\d+ can read and change every execution/),
    });
  });

  it("start says that the port for Restate is in use", async () => {
    const cwd = await createApart();
    const first = agentserve(["start", "--port", "0"], { cwd });
    await first.waitFor(/http:\/\/\S+?:\d+/);
    const { code, stderr } = await agentserve(["start", "--port", "0"], { cwd }).ended;
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^error Port \d+ for Restate is already in use\nhint /)]);
  });
});
