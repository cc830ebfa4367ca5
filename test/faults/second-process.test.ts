import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { describe, expect, it, type TestContext } from "vitest";
import { bin } from "../harness/cli.ts";
import { until } from "../harness/waiting.ts";

const config = `import { defineConfig } from "agentserve";
export default defineConfig({ server: { port: 0, limits: { drainMs: 300 } } });
`;
// Its second step waits for a file, and every step leaves a line in another.
const workflow = `import { appendFileSync, existsSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { defineWorkflow } from "agentserve";
const note = ({ idempotencyKey }) => appendFileSync("ran.txt", idempotencyKey + " " + process.pid + "\\n");
export const w = defineWorkflow({ id: "w" })
  .andThen({ id: "first", execute: note })
  .andThen({ id: "second", async execute(context) {
    note(context);
    while (!existsSync("go")) await setTimeout(5);
    return "made it";
  } })
  .andThen({ id: "third", execute(context) { note(context); return context.data; } });
`;

// The harness cleans up after one test at a time; these run beside each other, because one of them takes 15 s.

function createProject({ onTestFinished }: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-second-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  mkdirSync(join(folder, "workflows"));
  writeFileSync(join(folder, "agents.config.ts"), config);
  writeFileSync(join(folder, "workflows", "w.ts"), workflow);
  return folder;
}

function start({ onTestFinished }: TestContext, cwd: string) {
  // Without the word that tests are running, which makes the logger silent.
  const { NODE_ENV: _, VITEST: __, TEST: ___, ...env } = process.env;
  const child = spawn(process.execPath, [bin, "start", "--port", "0"], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => (text += stripVTControlCharacters(chunk)));
  const output = (): string => text;
  let isOver = false;
  const ended = once(child, "close").then(([code, signal]) => {
    isOver = true;
    return { code, signal };
  });
  async function says(pattern: RegExp): Promise<string> {
    await until(() => pattern.test(text) || isOver, String(pattern)).catch(() => {}); // the output is shown below
    expect(text).toMatch(pattern);
    return pattern.exec(text)![0];
  }
  return { child, output, ended, says, serves: () => says(url), waits: () => says(waiting) };
}
const url = /http:\/\/127\.0\.0\.1:\d+(?=.* ready in)/;
const waiting = /Another process \(pid \d+, http:\S+\) is using .*: waiting/;

const linesOf = (folder: string): string[] =>
  existsSync(join(folder, "ran.txt")) ? readFileSync(join(folder, "ran.txt"), "utf8").trim().split("\n") : [];

/** Begins an execution and waits until its second step is in flight. */
async function begin(base: string, folder: string): Promise<void> {
  const headers = { "content-type": "application/json", prefer: "respond-async" };
  const body = JSON.stringify({ input: {}, options: { executionId: "e" } });
  expect((await fetch(`${base}/workflows/w/execute`, { method: "POST", headers, body })).status).toBe(202);
  await until(() => linesOf(folder).length === 2, "the second step");
}
const stateOf = async (base: string): Promise<any> =>
  ((await (await fetch(`${base}/workflows/w/executions/e/state`)).json()) as { data: any }).data;

describe.concurrent("a second agentserve start on the same file", () => {
  it.for(["SIGTERM", "SIGKILL"] as const)(
    "a second server on the same file waits, takes over once the first has left by %s, and continues what was in flight",
    async (signal, test) => {
      const folder = createProject(test);
      const first = start(test, folder);
      await begin(await first.serves(), folder);
      const second = start(test, folder);
      await second.waits();
      expect(second.output()).not.toMatch(url);
      first.child.kill(signal);
      const how = await first.ended;
      expect(how).toMatchObject(signal === "SIGTERM" ? { code: 0 } : { signal });
      const base = await second.serves();
      writeFileSync(join(folder, "go"), "");
      await until(async () => (await stateOf(base)).status !== "running", "the end");
      expect(await stateOf(base)).toMatchObject({ status: "completed", result: "made it" });
      const [a, b] = [first.child.pid, second.child.pid];
      expect(linesOf(folder)).toEqual([`e/first ${a}`, `e/second ${a}`, `e/second ${b}`, `e/third ${b}`]);
    },
  );

  it("a second server on the same file is refused after 15 s when the first stays, and does it no harm", async (test) => {
    const folder = createProject(test);
    const first = start(test, folder);
    const base = await first.serves();
    await begin(base, folder);
    const began = performance.now();
    const second = start(test, folder);
    await second.waits();
    expect(await second.ended).toMatchObject({ code: 1 });
    expect(performance.now() - began).toBeGreaterThan(15_000);
    const lines = second.output().trimEnd().split("\n");
    const errors = lines.slice(lines.findIndex((line) => waiting.test(line)) + 1).filter((line) => line !== "");
    expect(errors).toEqual([expect.stringMatching(/^error .*data\.db/), expect.stringMatching(/^hint  .*--data/)]);
    expect(errors[0]).toContain(`is in use by another process (pid ${first.child.pid}, ${base})`);
    expect(errors[1]).toContain(`stop process ${first.child.pid}, or`);
    writeFileSync(join(folder, "go"), "");
    await until(async () => (await stateOf(base)).status !== "running", "the end");
    expect(await stateOf(base)).toMatchObject({ status: "completed", result: "made it" });
    expect(linesOf(folder).map((line) => line.split(" ")[1])).toEqual(Array(3).fill(String(first.child.pid)));
  });

  it("a second server on the same file ends at once by SIGTERM while it waits, and the first continues", async (test) => {
    const folder = createProject(test);
    const first = start(test, folder);
    const base = await first.serves();
    const second = start(test, folder);
    await second.waits();
    second.child.kill("SIGTERM");
    await second.ended;
    expect(second.output()).not.toMatch(/error/i); // so it is not the refusal after 15 s
    expect((await fetch(`${base}/workflows`)).status).toBe(200);
  });
});

// Alone: two take over from the first, one after the other, within the 15 s for which the last one waits.
describe("two that wait for the same file", () => {
  it("two servers that wait for the same file serve one after the other", async (test) => {
    const folder = createProject(test);
    const first = start(test, folder);
    await first.serves();
    const others = [start(test, folder), start(test, folder)];
    for (const other of others) await other.waits();
    first.child.kill("SIGKILL");
    await until(() => others.some((other) => url.test(other.output())), "the next one");
    const [next, last] = url.test(others[0]!.output()) ? others : others.toReversed();
    const base = await next!.serves();
    await begin(base, folder);
    expect(last!.output()).not.toMatch(url);
    next!.child.kill("SIGKILL");
    const again = await last!.serves();
    writeFileSync(join(folder, "go"), "");
    await until(async () => (await stateOf(again)).status !== "running", "the end");
    expect(await stateOf(again)).toMatchObject({ status: "completed", result: "made it" });
  });
});
