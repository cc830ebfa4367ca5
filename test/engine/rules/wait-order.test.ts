// The order is that of docs/workflows.md, "Sleeps and events": by time; in the same millisecond, an event counts after other
// waits and before the deadline of its own wait.
import { expect, it } from "vitest";
import type { ParkedBranch } from "../../../src/engine/execution.ts";
import { countsBefore } from "../../../src/engine/rules/wait-order.ts";
import type { Value } from "../../../src/engine/walk/value.ts";

const sleep = toWait("~nap#1");
const limited = toWait("~paid#1");

/** A wait whose time comes at 1,000. */
function toWait(key: string): ParkedBranch<Value> {
  return { stepIndex: 0, stepId: "s", key, reason: "x", due: { at: 1_000 } };
}

it.each([
  ["before an event that comes a millisecond later", 1_001, true],
  ["before an event of the same millisecond", 1_000, true],
  ["after an event that came a millisecond earlier", 999, false],
])("counts the end of a sleep %s", (_, at, expected) => {
  expect(countsBefore(sleep, { key: limited.key, at })).toBe(expected);
});

it.each([
  ["before its event, if that comes a millisecond later", 1_001, true],
  ["after its event of the same millisecond", 1_000, false],
  ["after its event, if that came a millisecond earlier", 999, false],
])("counts a deadline %s", (_, at, expected) => {
  expect(countsBefore(limited, { key: limited.key, at })).toBe(expected);
});

it("counts a wait whose time has come if there is no event", () => {
  expect(countsBefore(sleep, undefined)).toBe(true);
});
