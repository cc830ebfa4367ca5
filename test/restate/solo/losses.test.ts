// A start without an id of the caller, by a caller that waits: its replicas crash, shut down, or have other code.
import { afterEach, describe, expect, it } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { checkEvents, isOver, pathOf, Replicas, type Answer, type Replica } from "./replicas.ts";

const timeout = 2 * patienceMs;
let replicas: Replicas | undefined;
afterEach(() => replicas?.close());

/** Starts replicas, of which Restate calls the first one only. */
async function startReplicas(
  count = 3,
): Promise<{ started: Replicas; all: [Replica, Replica, Replica, ...Replica[]] }> {
  replicas = await Replicas.start({ count });
  const all = replicas.all as [Replica, Replica, Replica, ...Replica[]];
  replicas.drivenBy(all[0]);
  return { started: replicas, all };
}

describe("a step that ends its process", () => {
  const suspension = { kind: "system", reason: "Interrupted 3 times by a crash", stepId: "s2" };
  const dead = (all: readonly Replica[]): Replica[] => all.filter(({ host }) => host.child.exitCode === 1);

  it("suspends an execution after its third crash, which its caller is told", { timeout }, async () => {
    const { started, all } = await startReplicas(5);
    const [caller, ...others] = all;
    started.drivenBy(...others); // after three crashes, one is left
    const { status, id, body } = await caller.execute("deadly", "d");
    expect([status, body.data]).toMatchObject([200, { status: "suspended", suspension }]);
    expect([started.stepsOf("d"), dead(all).length]).toEqual([["s1", "s2", "s2", "s2"], 3]);
    expect(await caller.listed("deadly", "d")).toMatchObject({ executionId: id, status: "suspended", suspension });
    checkEvents(await caller.events("deadly", id), "suspended");
    started.openGate("d");
    const resumed = await caller.request(`${pathOf("deadly", id)}/resume`, {});
    expect(resumed).toMatchObject({ status: 200, body: { data: { status: "completed", result: "d s3" } } });
    expect(started.stepsOf("d")).toEqual(["s1", "s2", "s2", "s2", "s2", "s3"]);
  });

  it("suspends a step that ends its process though its caller is gone", { timeout }, async () => {
    const { started, all } = await startReplicas(5);
    const [first, reader, ...others] = all;
    await expect(first.execute("deadly", "d")).rejects.toThrow();
    started.drivenBy(...others);
    expect(await reader.listed("deadly", "d", isOver)).toMatchObject({ status: "suspended", suspension });
    expect([started.stepsOf("d"), dead(all).length]).toEqual([["s1", "s2", "s2", "s2"], 3]);
  });
});

it("does not count shutdowns of the replicas that drive an execution as crashes", { timeout }, async () => {
  const { started, all } = await startReplicas();
  const [first, caller, second] = all;
  const waiting = caller.execute("gated", "g");
  await started.reached("g", "s2");
  let [driving, next] = [first, second];
  for (let times = 1; times <= 4; times++) {
    const before = started.stepsOf("g").length;
    started.drivenBy(driving, next);
    await driving.end("SIGTERM");
    await until(() => started.stepsOf("g").length > before, "the step to run again");
    await driving.run();
    [driving, next] = [next, driving];
  }
  started.openGate("g");
  expect(await waiting).toMatchObject({ status: 200, body: { data: { status: "completed", result: "g s3" } } });
  expect(started.stepsOf("g")).toEqual(["s1", ...Array.from({ length: 5 }, () => "s2"), "s3"]);
});

it.each(["SIGKILL", "SIGTERM"] as const)(
  'recovery: "fail" ends one whose replica has ended, and the caller hears of it (%s)',
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

describe("a replica with other code", () => {
  const changed = "Workflow changed: step start is now where step s1 was";

  it("continues an execution on other code if its begun steps are the same", { timeout }, async () => {
    const { started, all } = await startReplicas();
    const [driving, caller] = all;
    const waiting = ["later", "begun"].map((workflow) => caller.execute(workflow, workflow));
    await Promise.all(["later", "begun"].map((tag) => started.reached(tag, "s2")));
    const next = await started.add({ version: 2 });
    started.drivenBy(next);
    await driving.end("SIGTERM");
    started.openGate("later");
    const [later, begun] = (await Promise.all(waiting)) as [Answer, Answer];
    expect(later).toMatchObject({ status: 200, body: { data: { status: "completed", result: "later final" } } });
    const suspension = { kind: "system", reason: changed, stepId: "s2" };
    expect(begun).toMatchObject({ status: 200, body: { data: { status: "suspended", suspension } } });
    expect(await next.listed("later", "later")).toMatchObject({ executionId: later.id, status: "completed" });
    expect(await next.listed("begun", "begun")).toMatchObject({ executionId: begun.id, status: "suspended" });
    const refused = await next.request(`${pathOf("begun", begun.id)}/resume`, {});
    expect([refused.status, refused.body.error]).toEqual([409, changed]);
    expect(started.stepsOf("later").filter((step) => step !== "s2")).toEqual(["s1", "final"]);
    checkEvents(await caller.events("later", later.id), "completed");
    checkEvents(await caller.events("begun", begun.id), "suspended");
  });

  it("runs an execution that a replica of the other version has started", { timeout }, async () => {
    const { started, all } = await startReplicas();
    const [first, caller] = all;
    const next = await started.add({ version: 2 });
    for (const [driving, asked, expected] of [
      [first, next, ["later last", "begun last"]],
      [next, caller, ["later final", "begun last"]],
    ] as const) {
      started.drivenBy(driving);
      const version = driving.place.version;
      const calls = ["later", "begun"].map((workflow) => {
        started.openGate(`${workflow}`);
        return asked.execute(workflow, workflow, { version });
      });
      const answers = await Promise.all(calls);
      expect(answers.map(({ status, body }) => [status, body.data?.result])).toEqual(
        expected.map((result) => [200, result]),
      );
      for (const [index, { id }] of answers.entries()) {
        const workflow = index === 0 ? "later" : "begun";
        checkEvents(await asked.events(workflow, id), "completed");
        const found = (await asked.list(workflow)).filter(({ input }) => input.version === version);
        expect(found.map(({ executionId }) => executionId)).toEqual([id]);
        expect(started.ran(workflow).filter((one) => one.id === id)).toHaveLength(3);
      }
    }
  });
});
