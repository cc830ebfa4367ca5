// Executions of former versions are stored with the names of step types and without traits.
import { DatabaseSync } from "node:sqlite";
import { andTap, andThen, defineWorkflow, embedded, type WorkflowDefinition } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { newFile } from "../../harness/folders.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";
import { traitsOf } from "../traits.ts";

const step = (id: string): any => andThen({ id, execute: ({ data }) => data });
const sub = defineWorkflow({ id: "sub", input: v.unknown() }).andThen({ id: "deep", execute: ({ data }) => data });
const rich = defineWorkflow({ id: "rich", input: v.object({ list: v.array(v.number()) }) })
  .andTap({ id: "tap", execute: () => undefined })
  .andWhen({ id: "when", condition: () => true, step: step("inside") })
  .andWhen({ id: "never", condition: () => false, step: step("skipped") })
  .andForEach({ id: "each", items: ({ input }) => input.list, step: step("item") })
  .andDoWhile({ id: "while", condition: () => false, step: step("body") })
  .andDoUntil({ id: "until", condition: () => true, step: step("again") })
  .andAll({ id: "all", steps: [step("one"), andTap({ id: "two", execute: () => {} })] })
  .andRace({ id: "race", steps: [step("three"), andThen({ id: "four", execute: () => new Promise<never>(() => {}) })] })
  .andBranch({
    id: "branch",
    branches: [true, false].map((holds) => ({ condition: () => holds, step: step(`b${holds}`) })),
  })
  .andSleep({ id: "sleep", duration: 1 })
  .andSleepUntil({ id: "date", date: "2020-01-01T00:00:00Z" })
  .andMap({ id: "map", map: { a: { source: "value", value: 1 } } })
  .andWorkflow({ id: "sub", workflow: sub })
  .andThen({ id: "ask", execute: ({ data, resumeData, suspend }) => (resumeData ? data : suspend("Go on?")) })
  .andWaitFor({ id: "wait", event: "done", timeout: "1h", skippable: true });

const open = (file: string, workflows: WorkflowDefinition[]) =>
  startTestServer("dev", { config: { workflows, backend: embedded({ path: file }) } });
const path = (id: string, rest: string) => `/workflows/rich/executions/${id}/${rest}`;
async function readAll(server: TestServer, id: string): Promise<unknown> {
  const all = await server.get(path(id, "steps"));
  const items = ["each", "while", "until"].map((loop) => server.get(path(id, `steps?under=${loop}`)));
  return [all, ...(await Promise.all(items))].map(({ body }) => body.data.items);
}

it("shows, resumes and forks executions that were stored without the traits of their steps", async () => {
  const file = newFile();
  const first = await open(file, [rich]);
  const options = { executionId: "e" };
  await first.post("/workflows/rich/execute", { input: { list: [1, 2] }, options });
  await first.post(path("e", "fork"), { fromStep: "ask", options: { executionId: "f" } });
  const before = [await readAll(first, "e"), await readAll(first, "f")];
  await first.close();

  const db = new DatabaseSync(file);
  const definitions = db.prepare("select definition, steps from definitions").all();
  const traits = definitions.flatMap(
    ({ steps }) => JSON.parse(steps as string) as [string, string, number, null, object][],
  );
  expect(traits.map(([, type, , , own]) => [type, own])).toEqual(traits.map(([, type]) => [type, traitsOf[type]]));
  for (const { definition, steps } of definitions) {
    const former = (JSON.parse(steps as string) as unknown[][]).map((one) => one.slice(0, 3));
    db.prepare("update definitions set steps = ? where definition = ?").run(JSON.stringify(former), definition!);
  }
  db.close();

  const gone = await open(file, []);
  expect([await readAll(gone, "e"), await readAll(gone, "f")]).toEqual(before);
  await gone.close();
  const second = await open(file, [rich]);
  expect([await readAll(second, "e"), await readAll(second, "f")]).toEqual(before);
  const forked = await second.post(path("e", "fork"), { fromStep: "ask", options: { executionId: "g" } });
  expect(forked.body.data.status).toBe("suspended");
  const [steps, ...loops] = (await readAll(second, "g")) as { path: string; output: unknown }[][];
  const toOutputs = (items: typeof steps) => items!.map((one) => [one.path, one.output]);
  const [known, ...knownLoops] = before[0] as (typeof steps)[];
  expect([steps, ...loops].map(toOutputs)).toEqual([known, ...knownLoops].map(toOutputs));
  for (const id of ["e", "f", "g"]) {
    const resumed = await second.post(path(id, "resume"), { resumeData: true });
    expect(resumed.body.data.suspension).toMatchObject({ kind: "event", stepId: "wait" });
    const skipped = await second.post(path(id, "resume"), { options: { stepId: "wait" } });
    expect(skipped.body.data).toMatchObject({ status: "completed", result: null });
  }
});
