// The shares are those of docs/workflows.md, "Send events".
import { expect, it } from "vitest";
import { hasRoom, type Share } from "../../../src/engine/rules/event-shares.ts";

/** The number of events that senders with a share may store, one after the other. */
function countRoom(storedEvents: number, share: Share): number {
  let count = 0;
  while (hasRoom(storedEvents, share, { own: count, side: count })) count++;
  return count;
}

it.each<[number, Share, number]>([
  [40, "half", 20],
  [41, "half", 20],
  [40, "tenth", 4],
  [49, "tenth", 4],
])("of %i stored events, a sender with a %s may store %i", (storedEvents, share, expected) => {
  expect(countRoom(storedEvents, share)).toBe(expected);
});

it("gives every sender at least one event, however few are stored", () => {
  expect([1, 2, 9].map((storedEvents) => countRoom(storedEvents, "tenth"))).toEqual([1, 1, 1]);
  expect(countRoom(1, "half")).toBe(1);
});

it("refuses an event of a user whose tenth is free when all callers have filled their half", () => {
  expect(hasRoom(40, "tenth", { own: 0, side: 19 })).toBe(true);
  expect(hasRoom(40, "tenth", { own: 0, side: 20 })).toBe(false);
});

it("counts only the half for a sender that has it alone", () => {
  expect(hasRoom(40, "half", { own: 19, side: 19 })).toBe(true);
});
