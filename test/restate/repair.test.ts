// Retries and forks on several replicas.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { checkEvents, isOver, pathOf, Replicas, newTag, type Answer, type Replica } from "./without-id/replicas.ts";

const timeout = 4 * patienceMs;
let replicas: Replicas;
let all: [Replica, Replica, Replica];
beforeAll(async () => {
  replicas = await Replicas.start();
  all = replicas.all as typeof all;
}, timeout);
afterAll(() => replicas?.close());

const retry = (replica: Replica, workflow: string, id: string, headers = {}): Promise<Answer> =>
  replica.request(`${pathOf(workflow, id)}/retry`, {}, headers);
const fork = (replica: Replica, workflow: string, id: string, body = {}, headers = {}): Promise<Answer> =>
  replica.request(`${pathOf(workflow, id)}/fork`, body, headers);
const respondAsync = { prefer: "respond-async" };

/** Starts an execution that fails. Resolves to its id. */
async function fail(replica: Replica, tag: string, more: object = {}): Promise<string> {
  const { status, id } = await replica.execute("mended", tag, more);
  expect(status).toBe(500);
  return id;
}
const typesOf = (events: readonly any[], pattern: RegExp): string[] =>
  events.map(({ type }) => type as string).filter((type) => pattern.test(type));
const ends = /^workflow-(complete|error)$/;

const pairs = 100;
it(`one of two retries at the same moment on different replicas wins, ${pairs} times`, { timeout }, async () => {
  const winners = [0, 0];
  const meet = async (index: number): Promise<void> => {
    const tag = newTag();
    const id = await fail(all[index % 3]!, tag);
    replicas.openGate(tag);
    const answers = await Promise.all([1, 2].map((next) => retry(all[(index + next) % 3]!, "mended", id)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    const winner = answers.findIndex(({ status }) => status === 200);
    winners[winner]!++;
    expect(answers[winner]!.body.data).toMatchObject({ executionId: id, status: "completed", result: `${tag} s4` });
    expect(answers[1 - winner]!.body.error).toBe(`Execution ${id} has not failed`);
    expect(replicas.stepsOf(tag)).toEqual(["s1", "s2", "s2", "s3", "s4"]);
    expect(await all[index % 3]!.state("mended", id)).toMatchObject({ status: "completed" });
  };
  const work = async (first: number): Promise<void> => {
    for (let index = first; index < pairs; index += 10) await meet(index);
  };
  await Promise.all(Array.from({ length: 10 }, (_, index) => work(index)));
  console.log("pairs of retries, won by the first and the second:", JSON.stringify(winners));
  expect(Math.min(...winners)).toBeGreaterThan(0); // the two really meet
});

it("retries an execution on any replica until it completes", { timeout }, async () => {
  const tag = newTag();
  const id = await fail(all[0], tag);
  expect((await retry(all[1], "mended", id)).status).toBe(500);
  const failed = await replicas.onAll((replica) => replica.readAll("mended", id));
  expect(failed).toEqual(all.map(() => failed[0]));
  expect(failed[0]).toMatchObject({ state: { status: "error", endAt: expect.any(String) } });
  expect((await retry(all[2], "mended", id)).status).toBe(500);
  replicas.openGate(tag);
  expect(await retry(all[0], "mended", id)).toMatchObject({ status: 200, body: { data: { result: `${tag} s4` } } });
  const views = await replicas.onAll((replica) => replica.readAll("mended", id));
  expect(views).toEqual(all.map(() => views[0]));
  const { state, events, listed } = views[0]!;
  expect(listed).toEqual([state]);
  checkEvents(events, "completed");
  const errors = Array.from({ length: 3 }, () => "workflow-error");
  expect(typesOf(events, ends)).toEqual([...errors, "workflow-complete"]);
  expect(replicas.stepsOf(tag)).toEqual(["s1", "s2", "s2", "s2", "s2", "s3", "s4"]);
  const refused = await replicas.onAll((replica) => retry(replica, "mended", id));
  expect(refused.map(({ status }) => status)).toEqual([409, 409, 409]);
});

it("cancels a retried execution while it runs, and does not retry it then", { timeout }, async () => {
  const tag = newTag();
  const id = await fail(all[0], tag, { holds: true });
  replicas.openGate(tag);
  expect((await retry(all[1], "mended", id, respondAsync)).status).toBe(202);
  await replicas.reached(tag, "s4");
  const running = await replicas.onAll((replica) => replica.state("mended", id));
  for (const state of running) expect(state).toMatchObject({ status: "running", endAt: null });
  expect(await all[2].list("mended", { status: "running" })).toMatchObject([{ executionId: id, endAt: null }]);
  expect((await retry(all[2], "mended", id)).status).toBe(409);
  expect((await all[2].request(`${pathOf("mended", id)}/cancel`, {})).status).toBe(200);
  const refused = await replicas.onAll((replica) => retry(replica, "mended", id));
  expect(refused.map(({ status, body }) => [status, body.error])).toEqual(
    all.map(() => [409, `Execution ${id} has not failed`]),
  );
});

it("forks an execution on another replica, and does not change it", { timeout }, async () => {
  const tag = newTag();
  const id = await fail(all[0], tag);
  const before = await all[0].readAll("mended", id);
  const [copied] = await all[0].steps("mended", id);
  expect(copied).toMatchObject({ path: "s1", status: "success" });
  replicas.openGate(tag);
  const forks = await replicas.onAll((replica) => fork(replica, "mended", id));
  for (const { status, body, id: forkId } of forks) {
    expect([status, body.data]).toMatchObject([200, { executionId: forkId, result: `${tag} s4` }]);
    const steps = replicas.ran(tag).filter((one) => one.id === forkId);
    expect(steps.map(({ step }) => step)).toEqual(["s2", "s3", "s4"]);
    const views = await replicas.onAll((replica) => replica.readAll("mended", forkId));
    expect(views).toEqual(all.map(() => views[0]));
    expect(views[0]).toMatchObject({ state: { status: "completed", forkedFrom: id } });
    checkEvents(views[0]!.events, "completed");
    expect(typesOf(views[0]!.events, /^step-start$/)).toHaveLength(3);
    const [own, ...shown] = await replicas.onAll((replica) => replica.steps("mended", forkId));
    expect(own).toMatchObject([copied, { path: "s2" }, { path: "s3" }, { path: "s4" }]);
    expect(shown).toEqual([own, own]);
  }
  const name = randomUUID();
  const same = await replicas.onAll((replica) => fork(replica, "mended", id, { options: { executionId: name } }));
  expect(same.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
  expect(await replicas.onAll((replica) => replica.readAll("mended", id))).toEqual(all.map(() => before));
});

it("a fork copies 36 MB of values, more than one message of Restate has", { timeout: 2 * timeout }, async () => {
  const tag = newTag();
  const original = await all[0].execute("heavy", tag);
  const lengths = Array.from({ length: 9 }, () => 4_000_000);
  expect(original).toMatchObject({ status: 200, body: { data: { result: lengths } } });
  const forked = await fork(all[1], "heavy", original.id, { fromStep: "sum" });
  expect(forked).toMatchObject({ status: 200, body: { data: { result: lengths } } });
  const steps = replicas.ran(tag).filter((one) => one.id === forked.id);
  expect(steps.map(({ step }) => step)).toEqual(["sum"]);
});

const repairs = 60;
it(`each of ${repairs} retries and forks ends once when a replica is killed in their middle`, { timeout }, async () => {
  const killed = await Replicas.start();
  onTestFinished(() => killed.close());
  const [victim, other, reader] = killed.all as [Replica, Replica, Replica];
  const tags = Array.from({ length: repairs }, (_, index) => `k${index}`);
  const more = { ms: [0, 0, 300] };
  const failed = await Promise.all(tags.map(async (tag, index) => fail(killed.all[index % 3]!, tag, more)));
  for (const tag of tags) killed.openGate(tag);
  killed.drivenBy(victim);
  const isFork = (index: number): boolean => index % 3 === 2;
  const starting = failed.map((id, index) =>
    (isFork(index) ? fork : retryAsFork)(other, "mended", id, {}, respondAsync),
  );
  await until(() => killed.ran().filter(({ step }) => step === "s3").length >= repairs / 4, "steps on the replica");
  killed.drivenBy(other, reader);
  await victim.end("SIGKILL");
  const ids = (await Promise.all(starting)).map(({ status, body }) => {
    expect(status).toBe(202);
    return body.data.executionId as string;
  });
  for (const [index, id] of ids.entries()) {
    await until(async () => isOver((await reader.state("mended", id)).status), `the end of ${id}`);
    const events = await reader.events("mended", id);
    checkEvents(events, "completed");
    expect(typesOf(events, ends)).toEqual([...(isFork(index) ? [] : ["workflow-error"]), "workflow-complete"]);
    const steps = killed.ran(tags[index]).filter((one) => one.id === id);
    expect(steps.filter(({ step }) => step === "s1")).toHaveLength(isFork(index) ? 0 : 1);
    expect(new Set(steps.map(({ step }) => step)).size).toBe(isFork(index) ? 3 : 4);
    const shown = await reader.steps("mended", id);
    expect(shown).toMatchObject(["s1", "s2", "s3", "s4"].map((path) => ({ path, status: "success" })));
  }
  expect(new Set(ids).size).toBe(repairs);
  expect(await reader.list("mended")).toHaveLength(repairs + tags.filter((_, index) => isFork(index)).length);
  await killed.idle();
});
const retryAsFork: typeof fork = (replica, workflow, id, _, headers) => retry(replica, workflow, id, headers);

it("retention starts anew at the end of a retry", { timeout }, async () => {
  const brief = await Replicas.start({ count: 2, retention: "10s" });
  onTestFinished(() => brief.close());
  const [one, other] = brief.all as [Replica, Replica];
  const id = await fail(one, "retried", { holds: true });
  brief.openGate("retried");
  expect((await retry(other, "mended", id, respondAsync)).status).toBe(202);
  await brief.reached("retried", "s4");
  // Ended after the other one: when it is removed, the first retention of the other one is over.
  const ended = await fail(one, "ended");
  expect(await other.state("mended", ended)).toMatchObject({ status: "error" });
  await until(async () => (await other.state("mended", ended)) === undefined, `the removal of ${ended}`);
  expect(await other.state("mended", id)).toMatchObject({ status: "running", endAt: null });
  brief.openGate("retried-end");
  await until(async () => isOver((await one.state("mended", id)).status), `the end of ${id}`);
  checkEvents(await one.events("mended", id), "completed");
  expect(brief.stepsOf("retried")).toEqual(["s1", "s2", "s2", "s3", "s4"]);
  const hasNothing = async (): Promise<boolean> => (await brief.rows("key", "state", "true")).length === 0;
  await until(hasNothing, "the removal of all state");
});
