import fc from "fast-check";
import { expect, it } from "vitest";
import type { Admissible } from "../../src/engine/runs/groups.ts";
import { Slots } from "../../src/engine/runs/slots.ts";
import { bySize } from "../harness/size.ts";

interface Execution {
  readonly name: string;
  readonly key: string | undefined;
  readonly run: Admissible;
}

/** The rules in plain lists: every change looks at everything. */
class Oracle {
  limit = 1;
  readonly maxRunning: number;
  waiting: Execution[] = [];
  queue: Execution[] = [];
  running: Execution[] = [];
  readonly admitted: string[] = [];

  constructor(maxRunning: number) {
    this.maxRunning = maxRunning;
  }

  inside(key: string): number {
    return [...this.queue, ...this.running].filter((one) => one.key === key).length;
  }
  enter(one: Execution): void {
    if (one.key === undefined) this.queue.push(one);
    else this.waiting.push(one);
    this.settle(one.key);
  }
  leave(one: Execution): void {
    const without = (list: Execution[]): Execution[] => list.filter((other) => other !== one);
    [this.waiting, this.queue, this.running] = [without(this.waiting), without(this.queue), without(this.running)];
    this.settle(one.key);
  }
  /** Only the group that has changed notices a new limit. */
  settle(key: string | undefined): void {
    for (const one of this.waiting.filter((other) => other.key === key)) {
      if (this.inside(key!) >= this.limit) break;
      this.waiting = this.waiting.filter((other) => other !== one);
      this.queue.push(one);
    }
    while (this.running.length < this.maxRunning && this.queue.length > 0) {
      const one = this.queue.shift()!;
      this.running.push(one);
      this.admitted.push(one.name);
    }
  }
  get all(): Execution[] {
    return [...this.running, ...this.queue, ...this.waiting];
  }
}

const action = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant("enter" as const), key: fc.nat({ max: 4 }) }) },
  { weight: 6, arbitrary: fc.record({ type: fc.constant("leave" as const), which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("replace" as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("limit" as const), limit: fc.integer({ min: 1, max: 4 }) }) },
);

it("admits executions of groups like a list that is searched as a whole", () => {
  const scenario = fc.record({
    running: fc.integer({ min: 1, max: 6 }),
    actions: fc.array(action, { maxLength: 120, size: "max" }),
  });
  const check = ({ running, actions }: typeof scenario extends fc.Arbitrary<infer T> ? T : never): void => {
    const oracle = new Oracle(running);
    const admitted: string[] = [];
    const workflowId = "w";
    const slots = new Slots(
      { running, queued: 1_000, bytes: 1_000_000 },
      { waiting: 1_000, limitOf: () => oracle.limit },
    );
    slots.open();
    for (const [index, one] of actions.entries()) {
      const { all } = oracle;
      if (one.type === "limit") oracle.limit = one.limit;
      if (one.type === "enter") {
        const name = `e${index}`;
        const key = one.key === 0 ? undefined : `k${one.key}`;
        const run: Admissible = { admit: () => void admitted.push(name) };
        const group = key === undefined ? undefined : { workflowId, key };
        const isFull = key !== undefined && oracle.inside(key) + countWaiting(oracle, key) >= oracle.limit;
        const reserved = slots.reserve(group);
        expect(reserved.isWaiting).toBe(isFull);
        slots.enter(run, 1, group);
        reserved.release();
        oracle.enter({ name, key, run });
      }
      if (one.type === "leave" && all.length > 0) {
        const gone = all[one.which % all.length]!;
        expect(slots.leave(gone.run)).toBe(true);
        expect(slots.leave(gone.run)).toBe(false);
        oracle.leave(gone);
      }
      if (one.type === "replace" && oracle.running.length > 0) {
        const before = oracle.running[one.which % oracle.running.length]!;
        const run: Admissible = { admit() {} };
        slots.replace(before.run, run);
        oracle.running = oracle.running.map((other) => (other === before ? { ...before, run } : other));
      }
      expect(admitted).toEqual(oracle.admitted);
      expect([slots.running, slots.queued]).toEqual([
        oracle.running.length,
        oracle.queue.length + oracle.waiting.length,
      ]);
    }
  };
  fc.assert(fc.property(scenario, check), { numRuns: bySize(200, 2_000) });
});
const countWaiting = ({ waiting }: Oracle, key: string): number => waiting.filter((one) => one.key === key).length;

it("takes the same time to leave a group, however many executions wait in others", () => {
  const slots = new Slots({ running: 10, queued: 10, bytes: 1_000 }, { waiting: Infinity, limitOf: () => 1 });
  slots.open();
  let admitted = 0;
  const enter = (key: string): Admissible => {
    const run: Admissible = { admit: () => void admitted++ };
    slots.enter(run, 0, { workflowId: "w", key });
    return run;
  };
  const first = enter("crowded");
  const line = Array.from({ length: 100_000 }, () => enter("crowded"));
  // Each of these would look at 100,000 executions if it looked at those of other keys.
  for (let n = 0; n < 50_000; n++) slots.leave(enter(`k${n}`));
  expect(admitted).toBe(50_001);
  for (let n = 0; n < 50_000; n++) slots.leave(enter("crowded"));
  expect([slots.running, slots.queued]).toEqual([1, 100_000]);
  slots.leave(first);
  expect(admitted).toBe(50_002);
  for (let n = 0; n < 99_999; n++) slots.leave(line[n]!);
  expect([admitted, slots.running, slots.queued]).toEqual([150_001, 1, 0]);
});

it("keeps the order of two executions that are being written, when places become free meanwhile", () => {
  const slots = new Slots({ running: 9, queued: 9, bytes: 10 }, { waiting: 9, limitOf: () => 2 });
  slots.open();
  const group = { workflowId: "w", key: "k" };
  const inside = Array.from({ length: 2 }, (): Admissible => ({ admit() {} }));
  for (const run of inside) slots.enter(run, 1, group);
  expect(slots.reserve(group).isWaiting).toBe(true);
  for (const run of inside) slots.leave(run);
  expect(slots.reserve(group).isWaiting, "one place is free, and one is before it").toBe(true);
});

it("refuses a reservation beyond the limit of waiting executions, and gives it back when one is released", () => {
  const slots = new Slots({ running: 1, queued: 0, bytes: 10 }, { waiting: 2, limitOf: () => 1 });
  slots.open();
  const group = { workflowId: "w", key: "k" };
  const refusal = expect.objectContaining({ status: 503, message: "Too many executions are waiting" });
  const inside = slots.reserve(group);
  const [first] = [slots.reserve(group), slots.reserve(group)];
  expect(() => slots.reserve(group)).toThrow(refusal);
  expect(() => slots.reserve({ workflowId: "w", key: "other" })).toThrow("Too many executions are running");
  first.release();
  slots.reserve(group).release();
  const run: Admissible = { admit() {} };
  slots.enter(run, 1, group);
  inside.release();
  expect(slots.running).toBe(1);
});
