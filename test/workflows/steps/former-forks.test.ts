// Forks of former versions are stored without the events of the steps that they have copied.
import { DatabaseSync } from "node:sqlite";
import { andSleep, andThen, andWaitFor, defineWorkflow, embedded, type WorkflowDefinition } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { newFile } from "../../harness/folders.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";

const step = (id: string): any => andThen({ id, execute: ({ data }) => data });
const list = v.array(v.number());
const sub: any = defineWorkflow({ id: "sub", input: list, result: list }).andThen(step("deep"));
/** A step of each shape, and two with which forks begin. */
const toOrder = (id: string): WorkflowDefinition =>
  defineWorkflow({ id: "order", input: list })
    .andTap({ id, execute: () => Promise.reject(new Error("not needed")) })
    .andWhen({ id: "when", condition: () => true, step: step("inside") })
    .andWhen({ id: "never", condition: () => false, step: step("left-out") })
    .andForEach({ id: "each", concurrency: 2, map: (_, item) => item, step: step("item") })
    .andWorkflow({ id: "sub", workflow: sub, map: (data) => data })
    .andForEach({
      id: "collect",
      onError: "collect",
      step: andThen({ id: "may-fail", execute: ({ data }) => (data === 2 ? Promise.reject(new Error("two")) : data) }),
    })
    .andDoWhile({ id: "while", condition: () => false, step: step("body") })
    .andBranch({ id: "branch", branches: [true, false].map((is) => ({ condition: () => is, step: step(`b${is}`) })) })
    .andRace({ id: "race", steps: [step("first"), andSleep({ id: "night", duration: "1d" })] })
    .andAll({
      id: "all",
      steps: [andSleep({ id: "nap", duration: 1 }), andWaitFor({ id: "late", event: "e", timeout: 1 })],
    })
    .andThen({ id: "ask", execute: ({ resumeData, suspend }) => resumeData ?? suspend("Go on?") })
    .andThen({ id: "end", execute: () => "ended" });

const open = (file: string, workflows: WorkflowDefinition[]): Promise<TestServer> =>
  startTestServer("dev", { config: { workflows, backend: embedded({ path: file }) } });
const path = (id: string, rest: string): string => `/workflows/order/executions/${id}/${rest}`;
const readAll = async (server: TestServer, id: string): Promise<any[]> => {
  const asked = ["", "?under=each", "?under=collect", "?under=while"].map((one) => server.get(path(id, `steps${one}`)));
  const items = (await Promise.all(asked)).flatMap(({ body }) => body.data.items);
  for (const attempt of items.flatMap(({ attempts }) => attempts)) delete attempt.frame; // of the process that has run it
  return items;
};
const fork = (server: TestServer, id: string, fromStep: string, executionId: string) =>
  server.post(path(id, "fork"), { fromStep, options: { executionId } });

/** Forks that were stored by a former version, in a file. */
function makeFormer(file: string): void {
  const db = new DatabaseSync(file);
  db.exec(`update journal set copied = null; update executions set copied = null,
    options = json_remove(options, '$.fork.startAt') where options -> '$.fork' is not null`);
  db.close();
}

it("shows all steps of a fork of a former version while its workflow is the same, else those that it has not copied", async () => {
  const file = newFile();
  const first = await open(file, [toOrder("tap")]);
  await first.post("/workflows/order/execute", { input: [1, 2, 3], options: { executionId: "original" } });
  await expect.poll(async () => (await first.get(path("original", "state"))).body.data.status).toBe("suspended");
  expect((await fork(first, "original", "ask", "waiting")).body.data.status).toBe("suspended");
  await first.post(path("waiting", "resume"), { resumeData: "yes" });
  await fork(first, "waiting", "end", "ended");
  // It went back: these steps have run in the fork itself.
  await fork(first, "original", "ask", "back");
  await first.post(path("back", "resume"), { resumeData: 1, options: { stepId: "branch" } });
  const ids = ["waiting", "ended", "back"];
  const before = await Promise.all(ids.map((id) => readAll(first, id)));
  const original = await readAll(first, "original");
  await first.close();
  // The times of copied steps are those of the original: in its forks, and in the fork of a fork.
  const copied = original.slice(0, 5);
  expect(copied.map(({ status }) => status)).toEqual(["success", "success", "success", "skipped", "success"]);
  for (const steps of before) expect(steps.slice(0, 5)).toEqual(copied);
  makeFormer(file);

  const second = await open(file, [toOrder("tap")]);
  const withoutStart = (steps: any[]): any[] => {
    const [{ startAt: _, attempts: __, ...tap }, ...rest] = steps;
    return [tap, ...rest];
  };
  for (const [index, id] of ids.entries())
    expect(withoutStart(await readAll(second, id)), id).toEqual(withoutStart(before[index]!));
  await fork(second, "ended", "end", "new");
  expect(withoutStart(await readAll(second, "new")).slice(0, 5)).toEqual(withoutStart(before[1]!).slice(0, 5));
  await second.close();

  for (const workflows of [[], [toOrder("renamed")]]) {
    const changed = await open(file, workflows);
    const shown = await Promise.all(ids.map((id) => readAll(changed, id)));
    expect(shown.map((steps) => steps.map((one) => `${one.path} ${one.status}`))).toEqual([
      ["ask success", "end success"],
      ["end success"],
      expect.arrayContaining(["branch success", "btrue success", "night aborted", "ask suspended"]),
    ]);
    expect(shown[0]!.map(({ output }) => output)).toEqual(["yes", "ended"]);
    await changed.close();
  }
});
