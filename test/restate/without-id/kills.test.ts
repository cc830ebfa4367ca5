// A start without an id of the caller, by a caller that waits: its replicas are killed.
import { afterEach, expect, it } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { checkEvents, isOver, pathOf, Replicas, type Answer, type Replica } from "./replicas.ts";

const timeout = 2 * patienceMs;
let replicas: Replicas | undefined;
afterEach(() => replicas?.close());

/**
 * A replica is killed when this many steps of a round have begun, and this many callers have an answer. Steps take `ms` and
 * up to 51 ms more.
 */
const rounds: { ms: number; step: string; count: number; answers?: number }[] = [
  { ms: 0, step: "s1", count: 0 },
  { ms: 0, step: "s1", count: 1 },
  { ms: 0, step: "s1", count: 15 },
  { ms: 0, step: "s2", count: 15 },
  { ms: 0, step: "s4", count: 1 },
  { ms: 0, step: "s4", count: 20 },
  { ms: 0, step: "s4", count: 0, answers: 1 },
  { ms: 0, step: "s4", count: 0, answers: 12 },
  { ms: 280, step: "s4", count: 1 },
  { ms: 280, step: "s4", count: 15 },
  { ms: 280, step: "s4", count: 30 },
];

/** Starts replicas. Restate calls the first one only. */
async function startReplicas(count = 3) {
  replicas = await Replicas.start({ count });
  const all = replicas.all as [Replica, Replica, Replica, ...Replica[]];
  replicas.drivenBy(all[0]);
  return { started: replicas, all };
}

it.each(["at once", "after it is listed"])(
  "a caller gets its result when the driving replica is killed %s",
  { timeout },
  async (when) => {
    const { started, all } = await startReplicas();
    const [driving, caller, other] = all;
    const waiting = caller.execute("gated", "g");
    const id = await started.reached("g", "s2");
    if (when !== "at once") await other.listed("gated", "g");
    started.drivenBy(other, driving);
    await driving.end("SIGKILL");
    await until(() => started.stepsOf("g").length === 3, "the step to run again");
    started.openGate("g");
    expect(await waiting).toMatchObject({ status: 200, id, body: { data: { status: "completed", result: "g s3" } } });
    expect(started.stepsOf("g"), "a recorded step does not run again").toEqual(["s1", "s2", "s2", "s3"]);
    expect(await caller.state("gated", id)).toEqual(await other.listed("gated", "g"));
    checkEvents(await other.events("gated", id), "completed");
  },
);

it.each([
  ["that drove it", 0],
  ["that did not drive it", 1],
])("completes an execution whose caller waited on a killed replica %s", { timeout }, async (_, victimIndex) => {
  const { started, all } = await startReplicas();
  const [driving, , other] = all;
  const victim = all[victimIndex]!;
  const waiting = victim.execute("gated", "g");
  waiting.catch(() => {}); // its connection is cut
  const id = await started.reached("g", "s2");
  started.drivenBy(other, driving);
  await victim.end("SIGKILL");
  await expect(waiting).rejects.toThrow();
  started.openGate("g");
  const listed = await other.listed("gated", "g", isOver);
  expect(listed).toMatchObject({ executionId: id, status: "completed", result: "g s3" });
  checkEvents(await other.events("gated", id), "completed");
  const ran = started.stepsOf("g");
  expect([ran.filter((step) => step !== "s2"), new Set(ran).size]).toEqual([["s1", "s3"], 3]);
});

it(
  "completes 30 executions at a time over kills of their replicas, with one answer each",
  { timeout: 4 * timeout },
  async () => {
    const { started, all } = await startReplicas();
    started.drivenBy(...all);
    const tags: string[] = [];
    const answered = new Map<string, Answer>();
    for (const [round, { ms: unit, step, count, answers = 0 }] of rounds.entries()) {
      const victim = all[round % 3]!;
      const before = started.ran().length;
      const answeredBefore = answered.size;
      const calls = Array.from({ length: 30 }, async (_, index) => {
        const tag = `r${round}.${index}`;
        tags.push(tag);
        const caller = all[index % 3]!;
        const ms = Array.from({ length: 4 }, (_none, n) => unit + ((index + n) % 4) * 17);
        const answer = await caller.execute("quick", tag, { ms }).catch(() => undefined);
        if (answer) answered.set(tag, answer);
        else expect(caller, "only calls on the victim are cut").toBe(victim);
      });
      const isTime = (): boolean =>
        answered.size - answeredBefore >= answers &&
        started.ran().filter((one, place) => place >= before && one.step === step).length >= count;
      await until(isTime, `the moment of round ${round}`);
      await victim.end("SIGKILL");
      await Promise.all(calls);
      await victim.run();
    }
    await started.idle();
    const ran = started.ran();
    const begun = new Set(ran.map(({ tag }) => tag));
    const lists = await Promise.all(all.map((replica) => replica.list("quick")));
    expect(lists).toEqual(all.map(() => lists[0]));
    const byTag = Map.groupBy(lists[0]!, ({ input }) => input.tag as string);
    expect(
      [...byTag.values()].filter((found) => found.length > 1),
      "listed once",
    ).toEqual([]);
    for (const [tag, { status, id, body }] of answered) {
      expect([status, body.data?.result], JSON.stringify(body)).toEqual([200, `${tag} s4`]);
      expect(byTag.get(tag)?.[0]).toMatchObject({ executionId: id, status: "completed", result: `${tag} s4` });
    }
    const completed = lists[0]!.filter(({ status }) => status === "completed").map(({ input }) => input.tag);
    expect(completed.toSorted()).toEqual([...byTag.keys()].toSorted());
    expect(
      [...begun].filter((tag) => !byTag.has(tag)),
      "each that began is listed",
    ).toEqual([]);
    checkRuns(started, tags);
    const check = async ([tag, [item]]: [string, any[]]): Promise<void> => {
      expect(item.result).toBe(`${tag} s4`);
      checkEvents(await all[1].events("quick", item.executionId), "completed");
    };
    const entries = [...byTag];
    for (let from = 0; from < entries.length; from += 10)
      await Promise.all(entries.slice(from, from + 10).map((entry) => check(entry)));
    console.log(
      `${answered.size} of ${tags.length} were answered, ${byTag.size} are listed, ${ran.length} runs of steps`,
    );
  },
);

/** Each execution has one id, and a step does not run again when the next one has begun. */
function checkRuns(started: Replicas, tags: readonly string[]): void {
  for (const tag of tags) {
    const ran = started.ran(tag);
    expect(new Set(ran.map(({ id }) => id)).size, `one execution for ${tag}`).toBeLessThanOrEqual(1);
    const steps = ran.map(({ step }) => step);
    expect(steps, tag).toEqual(steps.toSorted());
  }
}

it("suspends an execution after the third crash of a step, and tells its caller", { timeout }, async () => {
  const { started, all } = await startReplicas(5);
  const [caller, ...others] = all;
  started.drivenBy(...others); // after three crashes, one is left
  const suspension = { kind: "system", reason: "Interrupted 3 times by a crash", stepId: "s2" };
  const { status, id, body } = await caller.execute("deadly", "d");
  expect([status, body.data]).toMatchObject([200, { status: "suspended", suspension }]);
  expect(started.stepsOf("d")).toEqual(["s1", "s2", "s2", "s2"]);
  expect(await caller.listed("deadly", "d")).toMatchObject({ executionId: id, status: "suspended", suspension });
  checkEvents(await caller.events("deadly", id), "suspended");
  started.openGate("d");
  const resumed = await caller.request(`${pathOf("deadly", id)}/resume`, {});
  expect(resumed).toMatchObject({ status: 200, body: { data: { status: "completed", result: "d s3" } } });
  expect(started.stepsOf("d")).toEqual(["s1", "s2", "s2", "s2", "s2", "s3"]);
});

it.each(["SIGKILL", "SIGTERM"] as const)(
  'recovery: "fail" ends an execution whose replica has ended by %s, and tells its caller',
  { timeout },
  async (killSignal) => {
    const { started, all } = await startReplicas();
    const [driving, caller, other] = all;
    const waiting = caller.execute("unrecovered", "u");
    const id = await started.reached("u", "s2");
    started.drivenBy(other, driving);
    await driving.end(killSignal);
    expect(await waiting).toMatchObject({ status: 500, id, body: { error: "Failed to execute workflow" } });
    const state = { executionId: id, status: "error", error: "Interrupted by a restart" };
    expect(await other.state("unrecovered", id)).toMatchObject(state);
    expect(await caller.listed("unrecovered", "u")).toMatchObject(state);
    checkEvents(await other.events("unrecovered", id), "error");
    expect(started.stepsOf("u")).toEqual(["s1", "s2"]);
  },
);
