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

it("admits one that is larger than the limit when it is alone", () => {
  const { slots, admitted, enter } = createSlots();
  const small = enter("small", 1);
  enter("huge", 1_000);
  expect(admitted).toEqual(["small"]);
  slots.leave(small);
  expect(admitted).toEqual(["small", "huge"]);
});
