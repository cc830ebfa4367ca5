import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";
import { post } from "./call/stage.ts";

const files = {
  "agents.config.ts": `import { defineConfig } from "agentserve";
export default defineConfig({ server: { port: 0, limits: { drainNoticeMs: 0 } } });
`,
  "workflows/w.ts": `import { appendFileSync } from "node:fs";
import { defineWorkflow } from "agentserve";
export const ends = defineWorkflow({ id: "ends" }).andThen({ id: "s", execute: () => "done" });
export const exits = defineWorkflow({ id: "exits" })
  .andThen({ id: "first", execute: () => 1 })
  .andThen({ id: "last", execute({ resumeData }) {
    if (resumeData !== undefined) return "mended";
    appendFileSync("ran.txt", "x");
    process.exit(1);
  } });
`,
};
const start = async (cwd: string, ...args: string[]) => {
  const child = agentserve(["start", ...args], { cwd });
  const [url] = await child.waitFor(/http:\/\/\S+(?= )/);
  return { child, url };
};
const runs = (cwd: string, ...args: string[]) =>
  runHere(["runs", ...args, ...(args.includes("--data") ? [] : ["--data", ".agentserve/data.db"])], { cwd });

/** A project with an execution that has ended, and one whose step has ended the process. */
async function createExited(): Promise<string> {
  const cwd = createProject(files);
  const { child, url } = await start(cwd);
  await post(`${url}/workflows/ends/execute`, { input: {}, options: { executionId: "ended" } });
  const prefer = { prefer: "respond-async" };
  await post(`${url}/workflows/exits/execute`, { input: {}, options: { executionId: "exits" } }, prefer).catch(
    () => {},
  );
  expect((await child.ended).code).toBe(1);
  return cwd;
}

describe("agentserve runs, on the file of a stopped server", () => {
  it("runs lists, shows and cancels executions of a stopped server's file, and the next start does not continue a cancelled one", async () => {
    const cwd = await createExited();
    const listed = await runs(cwd, "list");
    expect([listed.code, listed.stdout.split("\n").map((line) => line.split(/ {2,}/).slice(0, 3))]).toEqual([
      0,
      [["execution", "workflow", "status"], ["exits", "exits", "running"], ["ended", "ends", "completed"], [""]],
    ]);
    expect(JSON.parse((await runs(cwd, "list", "--status", "completed", "--json")).stdout)).toMatchObject([
      { executionId: "ended", workflowId: "ends", status: "completed" },
    ]);
    for (const [flag, value, found] of [
      ["--workflow", "exits", ["exits"]],
      ["--user", "ada", []],
      ["--status", "running,completed", ["exits", "ended"]],
    ] as const) {
      const some = JSON.parse((await runs(cwd, "list", flag, value, "--json")).stdout);
      expect(some.map(({ executionId }: { executionId: string }) => executionId)).toEqual(found);
    }
    const shown = JSON.parse((await runs(cwd, "show", "exits", "--json")).stdout);
    expect(shown).toMatchObject({ executionId: "exits", status: "running", input: {} });
    expect(shown.steps).toMatchObject([
      { path: "first", status: "success", input: {}, output: 1 },
      { path: "last", status: "running", input: 1 },
    ]);
    const text = (await runs(cwd, "show", "ex")).stdout; // the beginning of an id
    expect(text).toMatch(
      /^execution +exits\n[^]*\n\n✓ first {2}andThen[^]*\n {4}in {4}\{\}\n {4}out {3}1\n▸ last {2}andThen\n/,
    );

    const cancel = ["runs", "cancel", "exits", "--reason", "it ends the process", "--data", ".agentserve/data.db"];
    const cancelled = await agentserve(cancel, { cwd }).ended;
    expect([cancelled.code, cancelled.stdout]).toEqual([0, "execution exits cancelled\n"]);
    const again = await runs(cwd, "cancel", "exits");
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("Execution exits has already ended")]);
    const { child, url } = await start(cwd);
    const { data } = await (await fetch(`${url}/workflows/exits/executions/exits/state`)).json();
    expect(data).toMatchObject({ status: "error", cancellation: { reason: "it ends the process" } });
    child.process.kill("SIGTERM");
    expect((await child.ended).code).toBe(0);
    expect(readFileSync(join(cwd, "ran.txt"), "utf8")).toBe("x");
  });

  it("runs --data refuses a file that is in use or missing, and unknown executions", async () => {
    const cwd = await createExited();
    const unknown = await runs(cwd, "show", "nobody");
    expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining("Execution nobody not found")]);
    const missing = await runs(cwd, "list", "--data", "none.db");
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining("none.db does not exist")]);
    expect(existsSync(join(cwd, "none.db"))).toBe(false);
    for (const args of [
      ["list", "--status", "ended"],
      ["list", "--limit", "0"],
      ["list", "--kind", "person"],
      ["retry", "exits"],
      ["show", "not an id"],
    ])
      expect((await runs(cwd, ...args)).code).toBe(2);
    const { child } = await start(cwd, "--no-recovery");
    const used = await runs(cwd, "list");
    expect([used.code, used.stderr]).toEqual([1, expect.stringContaining("is in use by another process")]);
    child.process.kill("SIGTERM");
    await child.ended;
  });

  it("runs --data names the process that uses the file, which removes its record when it ends", async () => {
    const cwd = createProject(files);
    const { child, url } = await start(cwd);
    const { pid } = child.process;
    const used = await runs(cwd, "list");
    expect([used.code, used.stderr]).toEqual([
      1,
      `error ${join(cwd, ".agentserve/data.db")} is in use by another process (pid ${pid}, ${url})\nhint  stop process ${pid}, or use another file with --data\n`,
    ]);
    child.process.kill("SIGTERM");
    await child.ended;
    expect(existsSync(join(cwd, ".agentserve/data.db-pid"))).toBe(false);
  });

  it("runs --data shows no pid of a process that has ended, or of another machine", async () => {
    const cwd = createProject(files);
    const { child, url } = await start(cwd);
    const record = join(cwd, ".agentserve/data.db-pid");
    expect(readFileSync(record, "utf8")).toBe(`${child.process.pid} ${hostname()} ${url}\n`);
    const { pid: ended } = spawnSync(process.execPath, ["--version"]);
    for (const text of [`${ended} ${hostname()} \n`, `${process.pid} elsewhere \n`, ""]) {
      writeFileSync(record, text);
      const { stderr } = await runs(cwd, "list");
      expect(stderr).toMatch(
        /is in use by another process\nhint {2}stop that process, or use another file with --data\n$/,
      );
    }
    child.process.kill("SIGKILL"); // its record is left behind
    await child.ended;
    writeFileSync(record, `${process.pid} ${hostname()}\n`);
    expect(await runs(cwd, "list")).toMatchObject({ code: 0, stdout: "", stderr: "no executions found\n" });
  });
});

describe("agentserve start --no-recovery", () => {
  it("start --no-recovery continues no execution, but suspends and resumes them on request", async () => {
    const cwd = await createExited();
    const { child, url } = await start(cwd, "--no-recovery");
    const path = `${url}/workflows/exits/executions/exits`;
    expect((await (await fetch(`${path}/state`)).json()).data.status).toBe("running");
    const created = await post(`${url}/workflows/ends/execute`, { input: {} });
    expect((await created.json()).data.status).toBe("completed"); // new ones run
    const suspended = await post(`${path}/suspend`, { reason: "to be looked at" });
    expect((await suspended.json()).data).toMatchObject({ status: "suspended" });
    const state = (await (await fetch(`${path}/state`)).json()).data;
    expect(state).toMatchObject({ suspension: { stepId: "last", stepIndex: 1, reason: "to be looked at" } });
    const resumed = await post(`${path}/resume`, { resumeData: 1, options: { stepId: "last" } });
    expect((await resumed.json()).data).toMatchObject({ status: "completed", result: "mended" });
    child.process.kill("SIGTERM");
    expect((await child.ended).code).toBe(0);
    expect(readFileSync(join(cwd, "ran.txt"), "utf8")).toBe("x");
  });
});
