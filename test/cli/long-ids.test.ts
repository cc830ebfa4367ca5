import { expect, it, onTestFinished } from "vitest";
import { createServer, defineSchedule, defineWorkflow, embedded } from "agentserve";
import { runHere, type CommandResult } from "../harness/in-process.ts";
import { createTestLogger } from "../harness/server.ts";

it("lists, shows, follows and resumes an execution of a schedule with the longest id by its whole id", async () => {
  const workflow = defineWorkflow({ id: "ask" }).andThen({
    id: "question",
    execute: ({ resumeData, suspend }) => (resumeData ? { answered: true } : suspend("ok?")),
  });
  const scheduleId = "n".repeat(80);
  const server = createServer({
    workflows: [workflow],
    schedules: [defineSchedule({ id: scheduleId, cron: "0 0 1 1 *", workflow })],
    backend: embedded({ path: ":memory:" }),
    logger: createTestLogger([]),
  });
  onTestFinished(() => server.close());
  const { url } = await server.listen({ port: 0 });
  const env = { ...process.env, AGENTSERVE_URL: url, AGENTSERVE_TOKEN: "", NO_COLOR: "1" };
  const run = (...args: string[]): Promise<CommandResult> => runHere(args, { env });

  expect((await run("schedules")).stdout).toMatch(new RegExp(`^${scheduleId} `, "m"));
  const [, id = ""] = /^execution (\S+) started/.exec((await run("schedules", "trigger", scheduleId)).stdout) ?? [];
  expect(id).toMatch(new RegExp(`^schedule:${scheduleId}:manual-[\\da-f-]{36}$`));
  await expect
    .poll(async () => (await server.runtime.executions.list({ id })).items)
    .toMatchObject([{ executionId: id, status: "suspended" }]);
  expect((await run("runs")).stdout).toMatch(new RegExp(`^${id} +ask +suspended `, "m"));
  expect((await run("runs", "show", id)).stdout).toContain(`execution   ${id}\n`);
  const followed = await run("call", "workflow", "ask", "--execution", id);
  expect([followed.code, followed.stderr]).toEqual([3, expect.stringContaining(`--execution ${id} --resume`)]);
  expect((await run("runs", "resume", id, "{}")).stdout).toMatch(new RegExp(`^execution ${id} completed\n`));
  expect((await run("call", "workflow", "ask", "{}", "--execution", id)).code).toBe(2);
});
