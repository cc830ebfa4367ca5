// Starts without an id of the caller, by callers that wait, on several replicas.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { checkEvents, newTag, pathOf, repeated, Replicas, type Answer, type Replica } from "./replicas.ts";

const timeout = 4 * patienceMs;
let replicas: Replicas;
let all: [Replica, Replica, Replica];
beforeAll(async () => {
  replicas = await Replicas.start();
  all = replicas.all as typeof all;
}, timeout);
afterAll(() => replicas?.close());

/** Starts an execution. Resolves when its step has its id, which it may hand out before anybody else knows it. */
async function start() {
  const tag = newTag();
  const waiting = all[0].execute("gated", tag);
  return { tag, waiting, id: await replicas.reached(tag, "s2") };
}

it.each([
  ["completed", "quick", 200, 4],
  ["error", "broken", 500, 2],
])("every replica shows an execution as %s once its caller has the answer", { timeout }, async (...row) => {
  const [status, workflow, httpStatus, steps] = row;
  for (const caller of all) {
    const tag = newTag();
    const { id, body, ...answer } = await caller.execute(workflow, tag, {}, { userId: "u1", context: { a: 1 } });
    expect(answer.status).toBe(httpStatus);
    const views = await replicas.onAll((replica) => replica.readAll(workflow, id));
    expect(views).toEqual(repeated(views[0]));
    const { state, events, listed } = views[0]!;
    expect(state).toMatchObject({ executionId: id, status, input: { tag }, context: { userId: "u1", a: 1 } });
    if (status === "completed") {
      expect(body.data).toMatchObject({ executionId: id, status, result: `${tag} s4` });
      const { result, startAt, endAt } = body.data;
      expect(state).toMatchObject({ result, startAt, endAt });
    }
    checkEvents(events, status);
    expect(events.filter(({ type }) => type === "step-start")).toHaveLength(steps);
    expect(listed).toEqual([state]);
    expect(replicas.stepsOf(tag)).toEqual(["s1", "s2", "s3", "s4"].slice(0, steps));
  }
});

it("every replica refuses another start with the id of an ended execution", { timeout }, async () => {
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

it("lists executions with and without an id of the caller by their time, each once", { timeout }, async () => {
  const ids: string[] = [];
  for (let n = 0; n < 8; n++) {
    const options = n % 2 === 0 ? {} : { executionId: randomUUID() };
    ids.unshift((await all[n % 3]!.execute("quick", newTag(), {}, options)).id);
  }
  for (const replica of all) {
    const pages = await replica.list("quick", { limit: "3" });
    const places = pages.map(({ startAt, executionId }) => `${startAt} ${executionId}`);
    expect(places).toEqual(places.toSorted().toReversed());
    const newest = pages.slice(0, ids.length).map(({ executionId }) => executionId);
    expect(newest.toSorted()).toEqual(ids.toSorted());
    expect(await replica.list("quick", { status: "running" })).toEqual([]);
  }
});

it("every replica knows an execution once its step has handed out its id", { timeout }, async () => {
  const { tag, waiting, id } = await start();
  const views = await replicas.onAll((replica) => replica.state("gated", id));
  expect(views.map((view) => view?.status)).toEqual(repeated("running"));
  const other = newTag();
  const starts = await replicas.onAll((replica) => replica.execute("gated", other, {}, { executionId: id }));
  expect(starts.map(({ status }) => status)).toEqual(repeated(409));
  const reading = replicas.onAll((replica) => replica.events("gated", id));
  replicas.openGate(tag);
  expect(await waiting).toMatchObject({ status: 200, id, body: { data: { result: `${tag} s3` } } });
  for (const events of await reading) checkEvents(events, "completed");
  expect(replicas.ran(other)).toEqual([]);
});

it("cancels or suspends an execution at any time of its first two seconds", { timeout }, async () => {
  const change = async (index: number): Promise<void> => {
    const { tag, waiting, id } = await start();
    await sleep(index * 100); // not to wait for anything: the moments differ
    const replica = all[index % 3]!;
    const path = pathOf("gated", id);
    if (index % 2 === 0) {
      expect((await replica.request(`${path}/cancel`, {})).status).toBe(200);
      expect((await waiting).status).toBe(409);
    } else {
      expect((await replica.request(`${path}/suspend`, {})).status).toBe(200);
      expect((await waiting).body.data).toMatchObject({ status: "suspended" });
      replicas.openGate(tag);
      const { status, body } = await replica.request(`${path}/resume`, {});
      expect([status, body.data?.result]).toEqual([200, `${tag} s3`]);
    }
    const status = index % 2 === 0 ? "error" : "completed";
    expect(await replica.listed("gated", tag)).toMatchObject({ executionId: id, status });
    await until(async () => (await replica.events("gated", id)).at(-1).status === status, "its last event");
    checkEvents(await replica.events("gated", id), status);
  };
  // A few at a time: a start of many takes longer than a second.
  for (let index = 0; index < 20; index += 2) await Promise.all([change(index), change(index + 1)]);
});

it("retention removes all state of ended executions, and their ids can be used again", { timeout }, async () => {
  const brief = await Replicas.start({ count: 2, retention: "1s" });
  onTestFinished(() => brief.close());
  const [one, other] = brief.all as [Replica, Replica];
  const hasNothing = async (): Promise<boolean> => (await brief.rows("key", "state", "true")).length === 0;
  brief.openGate("g");
  const workflows = ["quick", "broken", "gated"];
  const ended = await Promise.all(workflows.map((workflow) => one.execute(workflow, workflow[0]!)));
  for (const [index, { id }] of ended.entries()) {
    const workflow = workflows[index]!;
    await until(async () => (await other.state(workflow, id)) === undefined, `the removal of ${workflow}`);
    expect(await other.list(workflow)).toEqual([]);
  }
  await until(hasNothing, "the removal of all state");
  const [quick, broken] = ended as [Answer, Answer];
  const again = await other.execute("quick", "again", {}, { executionId: quick.id });
  expect(again).toMatchObject({ status: 200, id: quick.id, body: { data: { result: "again s4" } } });
  const body = { input: { tag: "streamed" }, options: { executionId: broken.id } };
  expect((await one.request("/workflows/quick/stream", body)).body).toContain('"streamed s4"');
  expect(brief.stepsOf("streamed")).toEqual(["s1", "s2", "s3", "s4"]);
  await until(hasNothing, "the removal of all state");
});
