import { afterEach, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { persist, Replicas, type Replica, type StartedStep } from "./replicas.ts";

const limit = 2;
const ids = Array.from({ length: 24 }, (_, index) => `e${index}`);

let replicas: Replicas | undefined;
afterEach(() => replicas?.close());

it(
  "keeps to the limit and the order of a workflow over all replicas, also when one of them is killed",
  { timeout: 4 * patienceMs },
  async () => {
    replicas = await Replicas.start({ prefersFirst: true, checks: true, stepMs: 150 });
    const [victim, ...others] = replicas.all as [Replica, Replica, Replica];
    for (const [index, id] of ids.entries()) expect(await others[index % 2]!.begin("limited", id)).toBe(202);
    replicas.openGate(); // all others wait by now
    const count = ({ steps }: Replica, step: string): number => steps.filter((one) => one.step === step).length;
    await until(
      () => count(victim, "end") >= 4 && count(victim, "begin") > count(victim, "end"),
      "executions in the middle",
    );
    victim.send("SIGKILL");
    const killedAt = Date.now();
    const hasCompleted = async (id: string) => (await others[0]!.state("limited", id))?.status === "completed";
    for (const id of ids) await until(() => hasCompleted(id), `${id} to complete`);
    expect(others.flatMap(({ steps }) => steps).length).toBeGreaterThan(0);

    // Each run of a step, in the order of their begins. Those that the kill has cut short ended with it.
    const runs = replicas.all.flatMap((replica) => {
      const begins = replica.steps.filter(({ step }) => step === "begin");
      return begins.map(({ id, at }) => {
        const end = replica.steps.find((one) => one.id === id && one.step === "end" && one.at >= at);
        return { id, from: at, to: end?.at ?? killedAt };
      });
    });
    for (const { from } of runs) {
      const atOnce = runs.filter((one) => one.from <= from && from < one.to).map(({ id }) => id);
      expect(new Set(atOnce).size, atOnce.join()).toBeLessThanOrEqual(limit);
    }
    // First come, first served: up to `limit` have their turn at the same time, and may begin in any order.
    const first = [...new Set(runs.toSorted((a, b) => a.from - b.from).map(({ id }) => id))];
    const left = [...ids];
    for (const id of first) {
      expect(left.indexOf(id), `executions that ${id} has passed`).toBeLessThan(limit);
      left.splice(left.indexOf(id), 1);
    }
    expect(left).toEqual([]);
    const interrupted = runs.filter(({ id }) => runs.filter((one) => one.id === id).length > 1);
    expect(interrupted.length).toBeGreaterThan(0);
  },
);

it(
  "gives the places of sleeping executions to others, over all replicas, also when one of them is killed",
  { timeout: 4 * patienceMs },
  async () => {
    replicas = await Replicas.start({ checks: true, stepMs: 100 });
    const turns = ids.slice(0, 12);
    for (const [index, id] of turns.entries())
      await persist(async () => {
        const status = await replicas!.all[index % 3]!.begin("turns", id, { ms: 300 });
        return status === 202 || status === 409 ? status : undefined;
      });
    const gone: StartedStep[] = [];
    const reports = (): StartedStep[] => [...gone, ...replicas!.all.flatMap(({ steps }) => steps)];
    const ended = (): number => reports().filter(({ step }) => step.endsWith("-end")).length;
    const kills: number[] = [];
    for (const [index, many] of [4, 10, 16].entries()) {
      await until(() => ended() >= many, `${many} turns`);
      replicas.all[index]!.host.child.once("exit", () => kills.push(Date.now()));
      gone.push(...(await replicas.replace(index)).steps);
    }
    const state = (id: string) => persist(() => replicas!.all[0]!.state("turns", id));
    for (const id of turns) await until(async () => (await state(id)).status === "completed", `${id} to complete`);

    // Each turn from its begin to its end. One that a kill has cut short ended with it.
    const all = reports().toSorted((a, b) => a.at - b.at);
    const runs = all.flatMap(({ id, step, at }, index) => {
      if (!step.endsWith("-begin")) return [];
      const part = step.replace("-begin", "");
      const next = all.slice(index + 1).find((one) => one.id === id && one.step.startsWith(`${part}-`));
      const to = next?.step === `${part}-end` ? next.at : kills.find((killedAt) => killedAt >= at)!;
      return [{ id, part, from: at, to }];
    });
    for (const { id, from } of runs) {
      const atOnce = runs.filter((one) => one.from <= from && from < one.to).map((one) => one.id);
      expect(new Set(atOnce), `those that ran beside ${id}`).toEqual(new Set([id]));
    }
    for (const part of ["one", "two"])
      expect(new Set(runs.filter((one) => one.part === part).map(({ id }) => id))).toEqual(new Set(turns));
    // Others began while the first one slept: it has given its place away.
    const [second] = runs.filter(({ part }) => part === "two");
    expect(new Set(runs.slice(0, runs.indexOf(second!)).map(({ id }) => id)).size).toBeGreaterThan(1);
  },
);
