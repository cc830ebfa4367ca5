// The contract of a run and its port, on a port in memory: every order of outcomes, slots, times, events, commands and crashes
// that `RunPort` allows. No code of a step runs: an attempt ends with the path of its step.
import { describe, expect, it } from "vitest";
import { Random } from "../faults/kills/plan.ts";
import { seed } from "../harness/seed.ts";
import { World } from "./port-world.ts";

describe.each([
  ["decides commands itself", false],
  ["hears of commands that are made, which may precede its transitions", true],
])("a run on a port in memory that %s", (_, mayPrecede) => {
  it("ends every execution once, with numbers without gaps and rows that replay to the stored status", async () => {
    const total: Record<string, number> = {};
    for (let round = 0; round < 150; round++) {
      const random = new Random(seed + round);
      const world = new World(random, mayPrecede);
      for (let turn = 0; turn < 80; turn++) {
        const actions = world.actions();
        if (actions.length === 0) break;
        await random.pick(...actions)();
      }
      await world.drain();
      expect(world.state, `seed ${seed + round}`).toMatchObject({ status: "completed", last: { result: '"d"' } });
      for (const [name, count] of Object.entries(world.seen)) total[name] = (total[name] ?? 0) + count;
    }
    console.log(`port in memory, mayPrecede ${mayPrecede}: ${JSON.stringify(total)}`);
    const { preceded, ...others } = total;
    expect(Math.min(...Object.values(others))).toBeGreaterThan(0);
    expect(preceded! > 0).toBe(mayPrecede);
  });
});
