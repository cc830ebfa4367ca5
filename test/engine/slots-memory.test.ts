import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import type { Admissible } from "../../src/engine/runs/groups.ts";
import { Slots } from "../../src/engine/runs/slots.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as (options?: { type: "minor" }) => void;

const count = 10_000;
const atOnce = 16;

it("frees runs that have left their slot without a full garbage collection", () => {
  const slots = new Slots({ running: atOnce, queued: 0, bytes: Infinity });
  slots.open();
  const running: Admissible[] = [];
  const pass = (): void => {
    for (let n = 0; n < count; n++) {
      const run: Admissible & { values: number[] } = { values: Array.from({ length: 100 }, () => n), admit() {} };
      slots.enter(run, 0);
      if (running.push(run) === atOnce) slots.leave(running.shift()!);
      if (n % 200 === 0) collect({ type: "minor" });
    }
  };
  pass();
  collect(); // what the first pass has compiled
  const before = oldBytes();
  pass();
  const kept = (oldBytes() - before) / count;
  console.log(`${kept.toFixed(0)} bytes of a run of 1,000 are kept`);
  expect(kept).toBeLessThan(400);
});

const oldBytes = (): number =>
  getHeapSpaceStatistics().find(({ space_name: name }) => name === "old_space")!.space_used_size;
