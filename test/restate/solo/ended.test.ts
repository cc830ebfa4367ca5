// A start without an id of the caller, by a caller that waits, may have no register before its end. No request shows it.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { checkEvents, pathOf, Replicas, newTag, repeated, type Answer, type Replica } from "./replicas.ts";

const timeout = 4 * patienceMs;
let replicas: Replicas;
let all: [Replica, Replica, Replica];
beforeAll(async () => {
  replicas = await Replicas.start();
  all = replicas.all as typeof all;
}, timeout);
afterAll(() => replicas?.close());

describe("an execution that has ended", () => {
  it.each([
    ["quick", 200, "completed", 4],
    ["broken", 500, "error", 2],
  ])("knows an ended execution (%s) on every replica when the caller has its answer", { timeout }, async (...row) => {
    const [workflow, httpStatus, status, steps] = row;
    for (const caller of [...all, ...all]) {
      const tag = newTag();
      const answer = await caller.execute(workflow, tag, {}, { userId: "u1", context: { a: 1 } });
      expect(answer).toMatchObject({ status: httpStatus, id: expect.stringMatching(/./) });
      const answers = await replicas.onAll((replica) => replica.readAll(workflow, answer.id));
      for (const { state, events, listed } of answers) {
        const context = { userId: "u1", a: 1 };
        expect(state).toMatchObject({ executionId: answer.id, status, input: { tag }, context });
        if (status === "completed") {
          expect(answer.body.data).toMatchObject({ executionId: answer.id, status, result: `${tag} s4` });
          const { result, startAt, endAt } = answer.body.data;
          expect(state).toMatchObject({ result, startAt, endAt });
        }
        checkEvents(events, status);
        expect(events.filter(({ type }) => type === "step-start")).toHaveLength(steps);
        expect(listed).toEqual([state]);
      }
      expect(answers).toEqual(repeated(answers[0]));
      expect(replicas.stepsOf(tag)).toEqual(["s1", "s2", "s3", "s4"].slice(0, steps));
    }
  });

  it("refuses another start with the id of an ended execution everywhere", { timeout }, async () => {
    for (const workflow of ["quick", "broken"]) {
      const { id } = await all[0].execute(workflow, newTag());
      const before = await all[1].readAll(workflow, id);
      const tag = newTag();
      const body = { input: { tag }, options: { executionId: id } };
      const refused = await replicas.onAll(async (replica) => {
        const starts = [
          replica.execute(workflow, tag, {}, { executionId: id }),
          replica.execute("gated", tag, {}, { executionId: id }),
          replica.request("/workflows/quick/execute", body, { prefer: "respond-async" }),
        ];
        return (await Promise.all(starts)).map(({ status, body: { error } }) => [status, error]);
      });
      const conflict = [409, `Execution ${id} already exists`];
      expect(refused).toEqual(repeated([conflict, conflict, conflict]));
      expect((await all[2].request(`/workflows/quick/stream`, body)).status).toBe(409);
      expect(await replicas.onAll((replica) => replica.readAll(workflow, id))).toEqual(repeated(before));
      expect(await all[0].state("gated", id), "not of another workflow").toBeUndefined();
      expect(replicas.ran(tag)).toEqual([]);
    }
  });

  it.each(["quick", "broken"])(
    "commands to an ended execution (%s) do not depend on who gave its id",
    { timeout },
    async (workflow) => {
      const ask = async (options: object): Promise<unknown> => {
        const { id } = await all[0].execute(workflow, "commands", {}, options);
        const before = await all[0].readAll(workflow, id);
        const answers: Answer[] = [];
        for (const replica of all)
          for (const command of ["cancel", "suspend", "resume"])
            answers.push(await replica.request(`${pathOf(workflow, id)}/${command}`, {}));
        const resumeAt = { resumeData: 1, options: { stepId: "s1" } };
        answers.push(await all[1].request(`${pathOf(workflow, id)}/resume`, resumeAt));
        const after = await replicas.onAll((replica) => replica.readAll(workflow, id));
        expect(after).toEqual(repeated(before));
        const text = JSON.stringify({ answers, after });
        return JSON.parse(text.replaceAll(id, "id").replaceAll(/"\d{4}-\d\d-\d\dT[^"]*"/g, '"time"'));
      };
      const [own, other] = [await ask({}), await ask({ executionId: randomUUID() })];
      expect(own).toEqual(other);
      expect(own).toMatchObject({ answers: expect.arrayContaining([expect.objectContaining({ status: 400 })]) });
    },
  );

  it("lists an ended execution in its place among others, once", { timeout }, async () => {
    const ids: string[] = [];
    const start = async (workflow: string, options = {}): Promise<string> => {
      const { id } = await all[ids.length % 3]!.execute(workflow, newTag(), {}, options);
      ids.unshift(id);
      return id;
    };
    const before = await all[0].list("ask");
    for (let n = 0; n < 4; n++) {
      await start("ask", { executionId: randomUUID() });
      const id = await start("ask");
      if (n % 2 === 0) await all[1].request(`${pathOf("ask", id)}/resume`, { resumeData: n });
    }
    const idsOf = (items: any[]): string[] => items.map(({ executionId }) => executionId);
    const toTexts = (items: any[]): string[] => items.map(({ startAt, executionId }) => `${startAt} ${executionId}`);
    for (const replica of all) {
      const pages = await replica.list("ask", { limit: "3" });
      expect(idsOf(pages).toSorted()).toEqual([...ids, ...idsOf(before)].toSorted());
      expect(toTexts(pages)).toEqual(toTexts(pages).toSorted().toReversed());
      const completed = await replica.list("ask", { status: "completed", limit: "1" });
      expect(completed).toEqual(pages.filter(({ status }) => status === "completed"));
    }
    const quick: string[] = [];
    for (let n = 0; n < 8; n++) {
      const options = n % 2 === 0 ? {} : { executionId: randomUUID() };
      quick.unshift((await all[n % 3]!.execute("quick", newTag(), {}, options)).id);
    }
    for (const replica of all) {
      const pages = await replica.list("quick", { limit: "3" });
      expect(idsOf(pages).slice(0, quick.length).toSorted()).toEqual(quick.toSorted());
      expect(toTexts(pages)).toEqual(toTexts(pages).toSorted().toReversed());
      expect(await replica.list("quick", { status: "running" })).toEqual([]);
    }
  });
});

it(
  "620 steps, more than one drive makes, are answered to the caller that waits",
  { timeout: 2 * timeout },
  async () => {
    const tag = newTag();
    const { status, id, body } = await all[0].execute("long", tag);
    expect([status, body.data.result]).toEqual([200, `${tag} s620`]);
    expect(replicas.stepsOf(tag)).toEqual(Array.from({ length: 620 }, (_, index) => `s${index + 1}`));
    checkEvents(await all[1].events("long", id), "completed");
    expect(await all[2].listed("long", tag)).toMatchObject({ executionId: id, status: "completed" });
  },
);

it("retention removes all of an ended one, and its id can be used again", { timeout }, async () => {
  const brief = await Replicas.start({ count: 2, retention: "1s" });
  onTestFinished(() => brief.close());
  const [one, other] = brief.all as [Replica, Replica];
  const hasNothing = async (): Promise<boolean> => (await brief.rows("key", "state", "true")).length === 0;
  brief.openGate("g");
  const starts = ["quick", "broken", "gated"].map((workflow) => one.execute(workflow, workflow[0]!));
  const [quick, broken, gated] = (await Promise.all(starts)) as [Answer, Answer, Answer];
  const { id } = await one.execute("ask", "a");
  await other.request(`${pathOf("ask", id)}/resume`, { resumeData: 1 });
  const ended = { quick: quick.id, broken: broken.id, gated: gated.id, ask: id };
  for (const [workflow, executionId] of Object.entries(ended)) {
    await until(async () => (await other.state(workflow, executionId)) === undefined, `the removal of ${workflow}`);
    expect(await other.list(workflow)).toEqual([]);
  }
  await until(hasNothing, "the removal of all state");
  const again = await other.execute("quick", "again", {}, { executionId: quick.id });
  expect(again).toMatchObject({ status: 200, id: quick.id, body: { data: { result: "again s4" } } });
  const body = { input: { tag: "streamed" }, options: { executionId: broken.id } };
  const { body: text } = await one.request("/workflows/quick/stream", body);
  expect(text).toContain('"streamed s4"');
  expect(brief.stepsOf("streamed")).toEqual(["s1", "s2", "s3", "s4"]);
  await until(hasNothing, "the removal of all state");
});
