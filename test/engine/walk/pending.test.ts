import fc from "fast-check";
import { expect, it } from "vitest";
import type { Due, EventFilter, ParkedBranch } from "../../../src/engine/execution.ts";
import { isShortWait, toPending } from "../../../src/engine/walk/pending.ts";
import type { Value } from "../../../src/engine/walk/value.ts";

type Parked = ParkedBranch<Value>;
const now = 1_000_000;
const due: fc.Arbitrary<Due> = fc.record({
  at: fc.integer({ min: now - 10, max: now + 40 }),
  isElapsed: fc.constantFrom(true as const, undefined),
});
const filter: fc.Arbitrary<EventFilter> = fc.record({
  step: fc.constant("s"),
  name: fc.constantFrom("a", "b"),
  key: fc.constantFrom(undefined, "k"),
});
const branch: fc.Arbitrary<Omit<Parked, "stepIndex" | "stepId" | "reason" | "key">> = fc.oneof(
  fc.record({ kind: fc.constantFrom("person" as const, undefined), due: fc.option(due, { nil: undefined }) }),
  fc.record({ kind: fc.constant("timer" as const), due, inlineMs: fc.constantFrom(0, 5, 20) }),
  fc.record({
    kind: fc.constant("event" as const),
    event: filter,
    due: fc.option(due, { nil: undefined }),
    inlineMs: fc.constantFrom(0, 5, 20),
  }),
);
const branches = (maxLength: number): fc.Arbitrary<Parked[]> =>
  fc
    .array(branch, { minLength: 1, maxLength })
    .map((list) =>
      list.map((one, index) => ({ stepIndex: 0, stepId: `${index}`, key: `~${index}#1`, reason: `r${index}`, ...one })),
    );

const kindOf = ({ kind = "person" }: Parked): string => kind;

it("keeps an execution running only while nobody is asked and its first time is near", () => {
  const seen = { short: 0, long: 0 };
  fc.assert(
    fc.property(branches(5), (parked) => {
      const timed = parked.filter((one) => one.due);
      const first = timed.length > 0 ? Math.min(...timed.map((one) => one.due!.at)) : Infinity;
      // The threshold is stored with the wait that comes first; of those at the same time, with the first in order.
      const inlineMs = timed.find((one) => one.due!.at === first)?.inlineMs ?? 0;
      const expected = parked.every((one) => kindOf(one) !== "person") && first <= now + inlineMs;
      expect(isShortWait(parked, now)).toBe(expected);
      seen[expected ? "short" : "long"]++;
    }),
    { numRuns: 2_000 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
});

it("shows the first person, else the first event, else the earliest time; lists 100; finds the first time of each clock", () => {
  fc.assert(
    fc.property(fc.oneof(branches(6), branches(150)), (parked) => {
      const times = parked.flatMap((one) => one.due ?? []);
      const earliest = parked.filter((one) => one.due).toSorted((one, other) => one.due!.at - other.due!.at);
      const shown =
        parked.find((one) => kindOf(one) === "person") ?? parked.find((one) => kindOf(one) === "event") ?? earliest[0]!;
      const found = toPending(parked);
      expect(found.pending[0]).toBe(shown);
      expect(found.reason).toBe(shown.reason);
      const others = parked.filter((one) => one !== shown);
      expect(found.pending.slice(1)).toEqual(others.slice(0, 99));
      expect(found.pendingCount).toBe(parked.length > 100 ? parked.length : undefined);
      const kinds = new Set(parked.map(kindOf));
      expect(new Set<string>(found.kinds ?? ["person"])).toEqual(kinds);
      expect((found.kinds ?? ["person"])[0]).toBe(kindOf(shown));
      const firstOf = (isElapsed: boolean): number[] => {
        const some = times.filter((one) => (one.isElapsed ?? false) === isElapsed).map((one) => one.at);
        return some.length > 0 ? [Math.min(...some)] : [];
      };
      const ofClock = (isElapsed: boolean): number[] =>
        (found.wake ?? []).filter((one) => (one.isElapsed ?? false) === isElapsed).map((one) => one.at);
      for (const isElapsed of [true, false]) expect(ofClock(isElapsed)).toEqual(firstOf(isElapsed));
      const toText = ({ name, key = "" }: EventFilter): string => `${name} ${key}`;
      const waited = new Set(parked.flatMap((one) => (one.event ? toText(one.event) : [])));
      expect(new Set((found.events ?? []).map(toText))).toEqual(waited);
    }),
    { numRuns: 1_000 },
  );
});
