import { afterEach, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { forAll, persist, Replicas, type StartedStep } from "./replicas.ts";

let replicas: Replicas | undefined;
afterEach(() => replicas?.close());

const ids = Array.from({ length: 12 }, (_, index) => `p${index}`);
const kills = bySize(6, 18);

it(
  `a child of a step starts once while ${kills} of three replicas are killed`,
  { timeout: 12 * patienceMs },
  async () => {
    replicas = await Replicas.start({ checks: true });
    const { all } = replicas;
    const pick = (index: number) => all[index % 3]!;
    const gone: StartedStep[] = [];
    const stateOf = async (id: string, index: number) =>
      (await persist(() => pick(index).state("parent", id))) as { status: string; result?: unknown };
    const lastAt = (id: string, steps: readonly StartedStep[]): number =>
      steps.findLast((one) => one.id === id)?.at ?? 0;
    const timesOf = (id: string): number => seen().filter((one) => one.id === id).length;
    const seen = (): StartedStep[] => [...gone, ...all.flatMap((replica) => replica.steps)];
    await forAll(ids, (id, index) =>
      persist(async () => {
        const status = await pick(index).begin("parent", id);
        return status === 202 || status === 409 ? status : undefined;
      }),
    );
    for (let kill = 0; kill < kills; kill++) {
      const before = seen().length;
      await until(() => seen().length >= before + 2 * ids.length, "progress");
      const killed = pick(kill);
      const interrupted = ids.filter((id) => all.every(({ steps }) => lastAt(id, steps) <= lastAt(id, killed.steps)));
      const times = new Map(interrupted.map((id) => [id, timesOf(id)]));
      await replicas.replace(kill % 3);
      gone.push(...killed.steps);
      // A step that three kills in a row interrupt is suspended, as docs/durability.md says.
      const continues = async (id: string): Promise<boolean> =>
        timesOf(id) > times.get(id)! || (await stateOf(id, kill + 1)).status !== "running";
      await forAll(interrupted, (id) => until(() => continues(id), `${id} to continue`));
    }
    await forAll(ids, async (id, index) => {
      await until(async () => (await stateOf(id, index)).status !== "running", `${id} to end`);
      const children = new Set(
        seen()
          .filter((one) => one.id === id)
          .map(({ step }) => step),
      );
      const [executionId, ...others] = children;
      expect([id, others]).toEqual([id, []]);
      expect(await stateOf(id, index)).toMatchObject({
        status: "completed",
        result: { executionId, status: "completed", result: 150 },
      });
    });
    const found = new Set(
      seen()
        .filter(({ id }) => id.startsWith("child:"))
        .map(({ id }) => id),
    );
    expect(found.size).toBe(ids.length);
    const starts = seen().filter(({ step }) => step.startsWith("child:")).length;
    console.log(`${ids.length} parents, ${kills} kills: ${starts} starts of ${found.size} children`);
    expect(starts, "steps that found their child again").toBeGreaterThan(ids.length);
  },
);
