import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Store } from "../../src/backends/embedded/store/store.ts";
import type { ListFilter } from "../../src/engine/contract/engine.ts";
import type { Transition } from "../../src/engine/execution.ts";
import { fewOf } from "../harness/few-of.ts";
import { bySize } from "../harness/size.ts";

const count = 5_000;
/** Many executions start at the same time, and those of one workflow fill several chunks. */
const times = 300;
const store = new Store(":memory:", "normal");
afterAll(() => store.close());

const transitions: (Transition | undefined)[] = [
  undefined,
  { at: 1, to: "completed", result: "1" },
  { at: 1, to: "completed", result: "1" },
  { at: 1, to: "error", error: { message: "x" } },
  { at: 1, to: "error", cancellation: { reason: "x" } },
  { at: 1, to: "suspended", reason: "x", pending: [{ stepId: "s", stepIndex: 0, key: "", reason: "x" }] },
  { at: 1, to: "suspended", reason: "x", pending: [] },
  { at: 1, to: "suspended", kind: "system", reason: "x", pending: [] },
  {
    at: 1,
    to: "suspended",
    reason: "x",
    pending: [
      { stepId: "s", stepIndex: 0, key: "", reason: "x", kind: "timer", data: '{"kind":"system","pending":[]}' },
    ],
    kinds: ["timer"],
  },
  {
    at: 1,
    to: "suspended",
    reason: '"event" "timer"',
    pending: [{ stepId: "s", stepIndex: 0, key: "", reason: "x", data: '"cancellation":' }],
  },
];
const kinds = [...Array.from({ length: 5 }, () => undefined), "person", "request", "system", "timer", "person"];
/** A number below `most` that is the same in every run, and depends on nothing else. */
let seed = 1;
const random = (most: number): number => (seed = (seed * 48_271) % 2_147_483_647) % most;
const known = Array.from({ length: count }, (_, n) => ({
  id: `${"abc"[random(3)]}${random(977)}-${n}`,
  workflowId: random(5) === 0 ? `rare-${random(4)}` : "usual",
  userId: random(3) === 0 ? undefined : `u${random(7)}`,
  startAt: random(times),
  end: random(transitions.length),
}));

beforeAll(() => {
  store.transaction(() => {
    for (const [n, { end, ...rest }] of known.entries()) {
      store.insertExecution(n + 1, { ...rest, input: "{}", context: {}, steps: [] }, []);
      const next = transitions[end];
      if (next) store.move(n + 1, 0, next);
    }
  });
});

const some = <T>(values: readonly T[]) => fc.subarray([...values], { minLength: 1 });
const filters = fewOf<Omit<ListFilter, "limit" | "before">>({
  workflowId: fc.constantFrom("usual", "rare-1", "nope"),
  userId: fc.constantFrom("u1", "u2", "nobody"),
  status: some(["running", "suspended", "completed", "error"] as const),
  kind: some(["person", "request", "system", "timer", "event"] as const),
  idPrefix: fc.constantFrom("a", "b1", "c97", "none"),
  isCancelled: fc.boolean(),
  since: fc.integer({ min: 0, max: times }),
  until: fc.integer({ min: 0, max: times }),
});

function toExpected(filter: Omit<ListFilter, "limit">): string[] {
  const { workflowId, userId, status, kind, idPrefix = "", isCancelled, since = 0, until = times } = filter;
  return known
    .filter(({ end, ...one }) => {
      const last = transitions[end];
      return (
        (workflowId ?? one.workflowId) === one.workflowId &&
        (userId === undefined || userId === one.userId) &&
        (!status || status.includes(last?.to ?? "running")) &&
        (!kind || kind.some((wanted) => wanted === kinds[end])) &&
        one.id.startsWith(idPrefix) &&
        (isCancelled === undefined || isCancelled === (last !== undefined && "cancellation" in last)) &&
        one.startAt >= since &&
        one.startAt <= until
      );
    })
    .toSorted((one, other) => other.startAt - one.startAt || (one.id < other.id ? 1 : -1))
    .map(({ id }) => id);
}

it("lists every execution that fits any filters on its pages, once and in order, also those of one moment", async () => {
  await fc.assert(
    fc.asyncProperty(filters, fc.integer({ min: 1, max: 200 }), async (filter, limit) => {
      const expected = toExpected(filter);
      let before: ListFilter["before"];
      for (let page = 0; page < 3; page++) {
        const { states, hasMore } = await store.list.read({ ...filter, limit, before });
        const from = page * limit;
        expect(states.map(({ execution }) => execution.id)).toEqual(expected.slice(from, from + limit));
        expect(hasMore).toBe(expected.length > from + limit);
        if (!hasMore) return;
        const { id, startAt } = states.at(-1)!.execution;
        before = { id, startAt };
      }
    }),
    { numRuns: bySize(40, 3_000) },
  );
});
