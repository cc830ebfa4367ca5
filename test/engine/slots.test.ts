import { expect, it } from "vitest";
import { Slots } from "../../src/engine/runs/slots.ts";

const createSlots = () => {
  const admitted: string[] = [];
  const slots = new Slots({ running: 1_000, queued: 1_000, bytes: 200 }, { waiting: 1_000, limitOf: () => 1 });
  slots.open();
  const enter = (name: string, bytes: number) => {
    const run = { admit: () => void admitted.push(name) };
    slots.enter(run, bytes);
    return run;
  };
  return { slots, admitted, enter };
};

it("lets small executions pass a large one that has no room yet, but not for ever", () => {
  const { slots, admitted, enter } = createSlots();
  const first = enter("first", 150);
  enter("large", 150);
  const small: { admit: () => void }[] = [];
  for (let index = 0; index < 400; index++) {
    const run = enter(`small ${index}`, 1);
    small.push(run);
    slots.leave(run);
  }
  const passed = admitted.length - 1;
  expect(passed).toBeGreaterThan(100);
  expect(passed).toBeLessThan(400);
  expect(admitted).not.toContain("large");
  slots.leave(first);
  expect(admitted[passed + 1]).toBe("large");
  enter("after", 1);
  expect(admitted).toContain("after");
});

it("admits an execution that is larger than the byte limit when it is alone", () => {
  const { slots, admitted, enter } = createSlots();
  const small = enter("small", 1);
  enter("huge", 1_000);
  expect(admitted).toEqual(["small"]);
  slots.leave(small);
  expect(admitted).toEqual(["small", "huge"]);
});

it("keeps as many places in the queue for children as for all other executions", () => {
  const slots = new Slots({ running: 1, queued: 2, bytes: 200 });
  for (let count = 0; count < 3; count++) slots.reserve();
  expect(() => slots.reserve()).toThrow("Too many executions are running");
  for (let count = 0; count < 2; count++) slots.reserve(undefined, true);
  expect(() => slots.reserve(undefined, true)).toThrow("Too many executions are running");
});

it("gives back the bytes that an execution has added while its slot was lent", () => {
  const { slots, admitted, enter } = createSlots();
  const lender = enter("lender", 50);
  slots.lend(lender);
  slots.grow(lender, 150);
  enter("child", 0);
  enter("large", 100);
  expect(admitted).toEqual(["lender", "child"]);
  slots.leave(lender);
  expect(admitted).toEqual(["lender", "child", "large"]);
  enter("largest", 101);
  expect(admitted).not.toContain("largest");
  enter("rest", 100);
  expect(admitted).toContain("rest");
});

it("lets code that waits for its lent slot continue when its execution needs no slot any more", async () => {
  const { slots, enter } = createSlots();
  const lender = enter("lender", 50);
  slots.lend(lender);
  enter("child", 200);
  const regained = slots.regain(lender);
  slots.rest(lender);
  await regained;
  expect([slots.running, slots.queued, slots.has(lender)]).toEqual([1, 0, false]);
});
