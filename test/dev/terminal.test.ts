import { stripVTControlCharacters } from "node:util";
import { expect, it } from "vitest";
import { bin, run } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { eventually } from "../harness/waiting.ts";

const files = {
  "agents.config.ts": `import { defineConfig } from "agentserve";
export default defineConfig({
  server: { cors: false },
  configureApp(app) {
    app.get("/boom/:order", () => {
      const order: { items?: string[] } = {};
      return (order as { items: string[] }).items.length;
    });
  },
});
`,
  "lib/pay.ts": `interface Card {
  limit: number;
}

export function charge(amount: number, card: Card = { limit: 100 } as Card): void {
  if ((amount as number) > card.limit) throw new Error("Card refused", { cause: new Error("Over the limit") });
}
`,
  "workflows/approval.ts": `import { setTimeout as sleep } from "node:timers/promises";
import { defineAgent, defineTool, defineWorkflow } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { charge } from "../lib/pay.ts";

export const approval = defineWorkflow({ id: "approval", input: v.object({ amount: v.number() }) })
  .andThen({
    id: "decide",
    async execute({ data, suspend, resumeData }) {
      if (data.amount > 100 && !resumeData) await suspend("Approve " + data.amount + "?");
      return data;
    },
  })
  .andThen({ id: "pay", execute: ({ data }) => charge(data.amount as number) });
export const flaky = defineWorkflow({ id: "flaky" }).andThen({
  id: "pay",
  retry: { attempts: 4, delay: 3, backoff: 2 },
  execute({ attempt }) {
    if (attempt < 4) throw new Error("Busy");
  },
});
export const slow = defineWorkflow({ id: "slow" }).andThen({
  id: "wait",
  execute: ({ signal }) => sleep(3_600_000, undefined, { signal }),
});
const card = defineTool({ description: "Charges", inputSchema: v.object({}), execute: () => charge(500) });
const calling = scriptedModel([{ toolCalls: [{ toolName: "card", toolCallId: "c1", input: {} }] }, "Sorry."]);
export const paying = defineWorkflow({ id: "paying" }).andAgent({
  id: "ask",
  agent: defineAgent({ id: "cashier", instructions: "", model: calling, tools: { card } }),
  prompt: "pay",
});
const model = scriptedModel([new Error("overloaded")]);
export const asking = defineWorkflow({ id: "asking" }).andAgent({
  id: "ask",
  agent: defineAgent({ id: "helper", instructions: "", model }),
  prompt: "hi",
});
`,
};

/** `agentserve dev` in a terminal of this width, until the test is over. */
async function openTerminal(columns: number, flags = "") {
  const cwd = createProject(files);
  const command = `stty cols ${columns} rows 50; exec ${process.execPath} ${bin} dev --port 0 --data :memory: ${flags}`;
  const child = run("script", ["-qec", command, "/dev/null"], { cwd });
  const [base] = await child.waitFor(/http:\/\/[\d.]+:\d+/);
  await child.waitFor(/console#t=\S+\s/); // the last line of the start
  const output = () => stripVTControlCharacters(child.output().stdout).replaceAll("\r", "");
  async function send(path: string, body?: object): Promise<number> {
    const headers = { "content-type": "application/json" };
    const init = body && { method: "POST", headers, body: JSON.stringify(body) };
    const response = await fetch(base + path, init ?? {});
    await response.text();
    return response.status;
  }
  /** The lines that a request adds, up to its own line, without the time in front of them. */
  async function linesOf(path: string, body?: object): Promise<string[]> {
    const from = output().length;
    const status = await send(path, body);
    const own = new RegExp(`^\\d\\d:\\d\\d:\\d\\d (GET|POST) .+ ${status}( stream)? [\\d.]+ m?s\n`, "m");
    const added = await eventually(() => {
      const text = output().slice(from);
      expect(text).toMatch(own);
      return text;
    });
    const lines = added.trimEnd().split("\n");
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns);
    return lines.map((line) => line.replace(/^\d\d:\d\d:\d\d /, "").replace(/[\d.]+ m?s$/, "N ms"));
  }
  const execute = (workflow: string, id: string, input: object = {}) =>
    linesOf(`/workflows/${workflow}/execute`, { input, options: { executionId: id } });
  return { child, base, output, linesOf, execute, send };
}

it("prints one line for each request and each execution", async () => {
  const { linesOf, execute, send, output } = await openTerminal(80);
  expect(await linesOf("/workflows?token=x")).toEqual(["GET /workflows 200 N ms"]);
  expect(await linesOf("/no/such/path")).toEqual(["GET (no route) 404 N ms"]);
  expect(await execute("approval", "pen-1", { amount: 3 })).toEqual([
    "approval pen-1 completed N ms",
    "POST /workflows/:id/execute 200 N ms",
  ]);
  expect(await execute("approval", "chair-1", { amount: 500 })).toEqual([
    'approval chair-1 suspended at decide: "Approve 500?"',
    "POST /workflows/:id/execute 200 N ms",
  ]);
  await send("/health");
  expect(await linesOf("/workflows")).toHaveLength(1);
  expect(output()).not.toMatch(/token|such|health/);
});

it.each([80, 120])("prints the error of a step once, at its place in the source, in %d columns", async (columns) => {
  const { execute, linesOf } = await openTerminal(columns);
  await execute("approval", "chair-1", { amount: 500 });
  const resume = { resumeData: { ok: true } };
  const lines = await linesOf("/workflows/approval/executions/chair-1/resume", resume);
  const source = files["lib/pay.ts"].split("\n")[5]!;
  expect(lines).toEqual([
    "error approval chair-1 failed at pay: Card refused",
    "  lib/pay.ts:6:46",
    "    4 |",
    expect.stringMatching(/^ {4}5 \| export function charge\(/),
    `  > 6 | ${columns === 80 ? `${source.slice(0, 71)}…` : source.slice(0, 112)}`.slice(0, columns),
    `      | ${" ".repeat(45)}^`,
    "    7 | }",
    "    8 |",
    "  at Object.execute (workflows/approval.ts:15:55)",
    expect.stringMatching(/^ {2}… \d+ more, shown with --debug$/),
    "  caused by: Over the limit",
    "POST /workflows/:id/executions/:executionId/resume 500 N ms",
  ]);
});

it("prints the error of a tool with its code, although the call of the agent continues", async () => {
  const { execute } = await openTerminal(100);
  expect(await execute("paying", "p-1")).toEqual([
    "warn paying p-1 ask agent cashier: Tool failed: Card refused",
    expect.stringContaining("tool: 'card', toolCallId: 'c1'"),
    "  lib/pay.ts:6:46",
    ...Array.from({ length: 5 }, () => expect.stringMatching(/^ {2}(>| ) \d \||^ {6}\|/)),
    expect.anything(),
    expect.stringContaining("workflows/approval.ts"),
    expect.stringMatching(/^ {2}… \d+ more, shown with --debug$/),
    "  caused by: Over the limit",
    expect.stringMatching(/^paying p-1 completed/),
    "POST /workflows/:id/execute 200 N ms",
  ]);
});

it("cuts the code of a mistake in the config to the width, and keeps the mistake in sight", async () => {
  const name = "x".repeat(100);
  const cwd = createProject({
    "agents.config.ts": `import { defineConfig } from "agentserve";
export default defineConfig({ workflows: [/* ${name} */], server: { prot: 1, host: "127.0.0.1" } }); // ${name}
`,
  });
  const command = `stty cols 80 rows 50; exec ${process.execPath} ${bin} dev --port 0 --data :memory:`;
  const { stdout } = await run("script", ["-qec", command, "/dev/null"], { cwd }).ended;
  const lines = stripVTControlCharacters(stdout).replaceAll("\r", "").split("\n");
  expect(lines.slice(0, 4)).toEqual([
    "error agents.config.ts: server.prot: unknown key; did you mean port?",
    '  1 | import { defineConfig } from "agentserve";',
    expect.stringMatching(/^> 2 \| …x+ \*\/\], server: \{ prot: 1, host: "127\.0\.0\.1" \}.*…$/),
    expect.stringMatching(/^ {4}\| +\^$/),
  ]);
  expect(lines[2]!.indexOf("prot")).toBe(lines[3]!.indexOf("^"));
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
});

it("prints the whole stack with --debug", async () => {
  const { execute } = await openTerminal(120, "--debug");
  const lines = await execute("approval", "e", { amount: 101 });
  expect(lines.join("\n")).not.toContain("--debug");
  const failed = await execute("asking", "a");
  expect(failed.filter((line) => line.startsWith("  at ")).length).toBeGreaterThan(3);
});

it("prints a retry as a warning, and a cancel as one line", async () => {
  const { execute, linesOf, send, output } = await openTerminal(80);
  expect(await execute("flaky", "f-1")).toEqual([
    "warn flaky f-1 pay: attempt 2 of 4 in 3 ms: Busy",
    "warn flaky f-1 pay: attempt 3 of 4 in 6 ms: Busy",
    "warn flaky f-1 pay: attempt 4 of 4 in 12 ms: Busy",
    "flaky f-1 completed N ms",
    "POST /workflows/:id/execute 200 N ms",
  ]);
  const waiting = send("/workflows/slow/execute", { input: {}, options: { executionId: "s-1" } });
  await eventually(async () => expect(await send("/workflows/slow/executions/s-1/state")).toBe(200));
  await linesOf("/workflows/slow/executions/s-1/cancel", { reason: "No budget" });
  await waiting;
  await eventually(() => expect(output().match(/\/workflows\/:id\/execute /g)).toHaveLength(2));
  expect(output().match(/.*(s-1|Abort|error).*/g)).toEqual([
    expect.stringMatching(/^\S+ slow s-1 cancelled: No budget$/),
  ]);
});

it("prints the error of a custom route and of an agent once", async () => {
  const { execute, linesOf } = await openTerminal(80);
  expect(await linesOf("/boom/7")).toEqual([
    "error Request failed: TypeError: Cannot read properties of undefined",
    "         (reading 'length')",
    "  agents.config.ts:7:51",
    expect.any(String),
    expect.any(String),
    "  > 7 |       return (order as { items: string[] }).items.length;",
    `      | ${" ".repeat(50)}^`,
    expect.any(String),
    expect.any(String),
    expect.stringMatching(/^ {2}… \d+ more, shown with --debug$/),
    "GET /boom/:order 500 N ms",
  ]);
  expect(await execute("asking", "a-1")).toEqual([
    "error asking a-1 failed at ask: Model call failed",
    expect.stringMatching(/^ {2}… \d+ more, shown with --debug$/),
    "  caused by: overloaded",
    "POST /workflows/:id/execute 500 N ms",
  ]);
});
