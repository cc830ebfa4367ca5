import { expect, it, onTestFinished } from "vitest";
import { runHere, type CommandResult } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";
import { serve } from "./call/stage.ts";

const files = {
  "agents.config.ts": `import { defineConfig } from "agentserve";
export default defineConfig({ server: { limits: { drainNoticeMs: 0 } } });
`,
  "workflows/w.ts": `import { andThen, defineWorkflow } from "agentserve";
const date = "2100-01-01T00:00:00.000Z";
export const sleeps = defineWorkflow({ id: "sleeps" }).andSleepUntil({ id: "nap", date });
export const event = defineWorkflow({ id: "event" }).andWaitFor({ id: "paid", event: "order-paid", key: "7" });
export const loop = defineWorkflow({ id: "loop" }).andForEach({
  id: "each",
  items: () => Array.from({ length: 120 }, (_, index) => index),
  concurrency: Infinity,
  step: andThen({
    id: "ask",
    execute: ({ data, suspend, resumeData }) => (data < 10 ? data : resumeData ?? suspend("ok?", undefined, { timeout: new Date(date) })),
  }),
});
`,
};

it("says in a terminal how long an execution sleeps, which event it waits for, and how far its loops are", async () => {
  const cwd = createProject(files);
  const server = await serve(cwd);
  onTestFinished(() => server.stop());
  const env = { ...process.env, AGENTSERVE_URL: server.url, AGENTSERVE_TOKEN: "", NO_COLOR: "1" };
  const run = (...args: string[]): Promise<CommandResult> => runHere(args, { cwd, env });
  const call = (id: string) => run("call", "workflow", id, "{}", "--execution", `${id}-1`);

  const slept = await call("sleeps");
  expect([slept.code, slept.stdout]).toEqual([3, ""]);
  expect(slept.stderr).toContain("‖ nap sleeps until 2100-01-01T00:00:00.000Z\n");
  expect(slept.stderr).toContain("execution sleeps-1 sleeps until 2100-01-01T00:00:00.000Z\n");
  const shown = await run("runs", "show", "sleeps-1");
  expect(shown.stdout).toContain("nap: sleeps until 2100-01-01T00:00:00.000Z\n");
  expect(shown.stdout).toContain("‖ nap  andSleepUntil  ·  suspended\n");
  expect(shown.stderr).toBe("cancel it with: npx agentserve runs cancel sleeps-1\n");

  const waited = await call("event");
  expect([waited.code, waited.stderr]).toEqual([
    3,
    expect.stringContaining("‖ paid waits for the event order-paid 7\n"),
  ]);
  expect(waited.stderr).toContain(`curl -X POST '${server.url}/events'`);
  expect((await run("runs", "show", "event-1")).stdout).toContain("paid: for the event order-paid 7\n");

  const looped = await call("loop");
  const first = "‖ each/10/ask waits until 2100-01-01T00:00:00.000Z, and 109 more: ok?\n";
  expect([looped.code, looped.stderr]).toEqual([3, expect.stringContaining(first)]);
  const { stdout } = await run("runs", "show", "loop-1");
  expect(stdout).toContain("each/10/ask: until 2100-01-01T00:00:00.000Z: ok?\n");
  expect(stdout).toContain("109 more, see GET …/steps?status=suspended\n");
  expect(stdout).toContain("‖ each  andForEach  ·  suspended  ·  120 iterations: 110 suspended, 10 success\n");
});
