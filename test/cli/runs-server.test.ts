import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { shared } from "../harness/at-end.ts";
import { agentserve } from "../harness/cli.ts";
import { freePort } from "../harness/free-port.ts";
import { runHere, type CommandResult } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";
import { heard, parseLines, post, serve } from "./call/stage.ts";

const files = {
  "agents.config.ts": `import { defineConfig } from "agentserve";
export default defineConfig({ server: { limits: { drainNoticeMs: 0 } } });
`,
  "workflows/w.ts": `import { existsSync } from "node:fs";
import { andThen, defineWorkflow, ServeError } from "agentserve";
export const pay = defineWorkflow({ id: "pay" })
  .andThen({ id: "read", execute: ({ data }) => ({ ...data, read: true }) })
  .andThen({ id: "charge", execute({ data, logger }) {
    logger.warn("charging");
    if (existsSync("broken")) throw new Error("the card is declined");
    return { ...data, charged: true };
  } });
export const each = defineWorkflow({ id: "each" }).andForEach({
  id: "each",
  items: () => ["a", "b"],
  onError: "collect",
  steps: [andThen({ id: "check", execute({ data }) {
    if (data === "b") throw new ServeError(422, "b is wrong");
    return data;
  } })],
});
export const ask = defineWorkflow({ id: "ask" })
  .andThen({ id: "question", execute: ({ resumeData, suspend }) => resumeData ?? suspend("ok?", { amount: 5 }) });
`,
};

let cwd: string;
let server: Awaited<ReturnType<typeof serve>>;
shared(async () => {
  cwd = createProject(files);
  server = await serve(cwd);
});

const env = (): NodeJS.ProcessEnv => ({
  ...process.env,
  AGENTSERVE_URL: server.url,
  AGENTSERVE_TOKEN: "",
  NO_COLOR: "1",
});
const run = (...args: string[]): Promise<CommandResult> => runHere(args, { cwd, env: env() });
const runs = (...args: string[]): Promise<CommandResult> => run("runs", ...args);
const execute = (workflow: string, executionId: string, input: object = {}) =>
  post(`${server.url}/workflows/${workflow}/execute`, { input, options: { executionId, userId: "ada" } });
/** Starts an execution that fails, and mends its cause. */
async function fail(id: string): Promise<void> {
  writeFileSync(join(cwd, "broken"), "");
  expect((await execute("pay", id, { n: 1 })).status).toBe(500);
  rmSync(join(cwd, "broken"));
}

describe("agentserve runs, on a running server", () => {
  it("runs lists executions with filters, as a table or as JSON, and says how to show one", async () => {
    await fail("listed-failed");
    await execute("pay", "listed-done");
    await execute("ask", "listed-waits");
    const { stdout, stderr, code } = await runs("--limit", "3");
    expect([code, stdout.split("\n").map((line) => line.trim().split(/ {2,}/).slice(0, 3))]).toEqual([
      0,
      [
        ["execution", "workflow", "status"],
        ["listed-waits", "ask", "suspended"],
        ["listed-done", "pay", "completed"],
        ["listed-failed", "pay", "error"],
        [""],
      ],
    ]);
    expect(stdout).toContain("ok?");
    expect(stderr).toBe("show one with: npx agentserve runs show listed-failed\n");
    for (const [args, ids] of [
      [
        ["--status", "error,suspended"],
        ["listed-waits", "listed-failed"],
      ],
      [["--workflow", "ask"], ["listed-waits"]],
      [["--kind", "person"], ["listed-waits"]],
      [["--user", "bob"], []],
    ] as const) {
      const found = await runs("list", ...args, "--json");
      expect([JSON.parse(found.stdout).map((one: { executionId: string }) => one.executionId), found.stderr]).toEqual([
        ids,
        "",
      ]);
    }
  });

  it("runs show filters the steps of a loop by --under and --status, in a table or as JSON", async () => {
    expect((await execute("each", "filtered")).status).toBe(200);
    const toSteps = ({ stdout }: CommandResult): string[] =>
      stdout.split("\n").flatMap((line) => /^ *[^a-z ] (\S+ {2}\w+)/u.exec(line)?.[1] ?? []);
    const show = (...args: string[]): Promise<CommandResult> => runs("show", "filtered", ...args);
    expect(toSteps(await show())).toEqual(["each  andForEach"]);
    expect(toSteps(await show("--under", "each"))).toEqual([
      "each/0  item",
      "check  andThen",
      "each/1  item",
      "check  andThen",
    ]);
    expect(toSteps(await show("--under", "each/1"))).toEqual(["each/1/check  andThen"]);
    expect(toSteps(await show("--status", "error"))).toEqual(["each/1  item", "check  andThen"]);
    const { stdout } = await show("--under", "each", "--status", "error", "--json");
    expect(JSON.parse(stdout).steps.map(({ path }: { path: string }) => path)).toEqual(["each/1", "each/1/check"]);
    const none = await show("--status", "suspended");
    expect([none.code, toSteps(none), none.stderr]).toEqual([0, [], "no steps match the filter\n"]);
    const wrong = await show("--status", "failed");
    expect([wrong.code, wrong.stderr]).toEqual([
      2,
      expect.stringContaining("--status: expected one of waiting, running"),
    ]);
  });

  it("runs shows the steps of an execution by a prefix of its id, retries it and forks it", async () => {
    await fail("shown-failed");
    const shown = await runs("show", "shown-f");
    expect(shown.stdout.replace(/\d+ (ms|s)|2\d{3}-\S+Z/g, "T")).toBe(`execution   shown-failed
workflow    pay
status      error
started     T  took T
user        ada
error       Failed to execute workflow
input       {"n":1}

✓ read  andThen  ·  T
✗ charge  andThen  ·  error  ·  T
    error Failed to execute workflow  attempt 1
`);
    expect(shown.stderr).toBe("retry it with: npx agentserve runs retry shown-failed\n");
    const json = JSON.parse((await runs("show", "shown-failed", "--json")).stdout);
    expect(json).toMatchObject({
      executionId: "shown-failed",
      steps: [{ path: "read" }, { path: "charge", status: "error" }],
    });

    const retried = await runs("retry", "shown-failed");
    expect([retried.code, retried.stdout]).toEqual([
      0,
      `execution shown-failed completed\n${JSON.stringify({ n: 1, read: true, charged: true }, null, 2)}\n`,
    ]);
    const again = await runs("retry", "shown-failed");
    expect([again.code, again.stdout, again.stderr]).toEqual([
      1,
      "",
      "error Execution shown-failed has not failed (409)\nhint  see the execution with: npx agentserve runs show shown-failed\n",
    ]);
    const forked = await runs("fork", "shown-failed", "--input", '{"n":2}', "--json");
    const { executionId, result } = JSON.parse(forked.stdout);
    expect(result).toEqual({ n: 2, read: true, charged: true });
    expect((await runs("show", executionId)).stdout).toMatch(/\nforked from shown-failed\n/);
    const from = await runs("fork", "shown-failed", "--from", "charge", "--json");
    expect(JSON.parse(from.stdout)).toMatchObject({ status: "completed", result: { n: 1 } });
    expect((await runs("fork", "shown-failed", "--from", "charge", "--input", "{}")).code).toBe(2);
  });

  it("runs resumes and cancels executions, and refuses a prefix of several ids with the choices", async () => {
    for (const id of ["asked-1", "asked-2"]) await execute("ask", id);
    const several = await runs("show", "asked");
    expect([several.code, several.stderr]).toEqual([
      1,
      "error asked is the beginning of several ids\nhint  choose one of: asked-2, asked-1\n",
    ]);
    expect((await runs("show", "asked-1")).stdout).toContain("‖ question  andThen  ·  suspended\n    waits ok?\n");
    const empty = await runs("resume", "asked-1");
    expect([empty.code, empty.stdout]).toEqual([3, "execution asked-1 suspended\nquestion waits: ok?\n"]);
    expect(empty.stderr).toBe("resume it with: npx agentserve runs resume asked-1 '<json>'\n");
    const resumed = await runs("resume", "asked-1", '{"ok":true}', "--json");
    expect(JSON.parse(resumed.stdout)).toMatchObject({ status: "completed", result: { ok: true } });
    expect((await runs("resume", "asked-2", "{ok}")).code).toBe(2);
    const cancelled = await runs("cancel", "asked-2", "--reason", "enough");
    expect([cancelled.code, cancelled.stdout]).toEqual([0, "execution asked-2 cancelled\n"]);
    expect((await runs("--status", "error")).stdout).toMatch(/asked-2 +ask +cancelled .* enough\n/);
    const unknown = await runs("show", "nobody");
    expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining("Execution nobody not found")]);
  });

  it("runs says how to read the file of a stopped server", async () => {
    const idle = await serve(cwd);
    await idle.stop();
    const { code, stdout, stderr } = await runs("--url", idle.url);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      /^error Cannot connect to \S+ \(ECONNREFUSED\)\nhint {2}.*; read the file of a stopped server with --data \.agentserve\/data\.db\n$/,
    );
  });
});

describe("agentserve logs", () => {
  const messages = (text: string): string[] => parseLines(text).map(({ message }) => message);

  it("logs prints the newest matching records, as text or as JSON", async () => {
    await fail("logged");
    const all = await run("logs", "--execution", "logged", "--json");
    expect([all.code, messages(all.stdout), all.stderr]).toEqual([0, ["charging", "Step failed"], ""]);
    expect(messages((await run("logs", "--execution", "logged", "--level", "error", "--json")).stdout)).toEqual([
      "Step failed",
    ]);
    expect(messages((await run("logs", "--workflow", "ask", "--level", "error", "--json")).stdout)).toEqual([]);
    const text = (await run("logs", "--execution", "logged")).stdout;
    expect(text).toMatch(
      /^\d\d:\d\d:\d\d warn pay logged charge: charging\n\d\d:\d\d:\d\d error pay logged failed at charge: /,
    );
    for (const args of [
      ["--level", "loud"],
      ["--limit", "0"],
    ])
      expect((await run("logs", ...args)).code).toBe(2);
  });

  it("logs -f prints each record once, and reconnects to a server that was restarted", async () => {
    const port = String(await freePort());
    const first = await serve(cwd, ["--port", port]);
    const at = (executionId: string) =>
      post(`${first.url}/workflows/pay/execute`, { input: {}, options: { executionId } });
    await at("one");
    const child = agentserve(["logs", "-f", "--level", "warn", "--json"], {
      cwd,
      env: { ...env(), AGENTSERVE_URL: first.url },
    });
    await child.waitFor(/"executionId":"one"/);
    await at("two");
    await child.waitFor(/"executionId":"two"/);
    await first.stop();
    await heard(child, /lost the connection to \S+; reconnecting …/);
    const second = await serve(cwd, ["--port", port]);
    await at("three");
    await child.waitFor(/"executionId":"three"/);
    child.process.kill("SIGINT");
    const { code, stdout } = await child.ended;
    const charging = parseLines(stdout).filter(({ message }) => message === "charging");
    expect([code, charging.map(({ executionId }) => executionId)]).toEqual([0, ["one", "two", "three"]]);
    await second.stop();
  });
});
