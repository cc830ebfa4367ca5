// The search for events that end waits, which both backends use. Through the door: `test/workflows/waits`, `test/restate/waits`.
import { expect, it } from "vitest";
import type { EventHead } from "../../src/engine/rules/take-events.ts";
import { findTakes } from "../../src/engine/runs/find-takes.ts";

interface Stored extends Partial<Omit<EventHead, "id" | "order">> {
  readonly id: string;
  readonly name: string;
  readonly text?: string;
  /** It has expired since its head was read. */
  readonly isGone?: true;
}

/** Searches for branches that wait for these events, in the order of the definition. */
async function search(names: readonly string[], stored: readonly Stored[], { userId, taken = [] }: Searched = {}) {
  const heads = stored.map(({ name, ...one }, order) => {
    return { name, at: order, order, isFromCode: false, isOlder: false, text: undefined, isGone: undefined, ...one };
  });
  const refused: string[] = [];
  const { takes, isCut } = await findTakes<(typeof heads)[number]>(
    {
      heads: ({ event }) => heads.filter(({ name }) => name === event!.name),
      data: async ({ text, isGone }) => (isGone ? undefined : { text }),
      refused: ({ id }, { stepId }) => refused.push(`${id} of ${stepId}`),
    },
    {
      execution: { id: "e", workflowId: "w", input: "{}", context: {}, startAt: 1, steps: [], userId },
      walk: {
        parkedBranches: () =>
          names.map((name, index) => {
            const event = { step: name, name };
            return { stepIndex: 0, stepId: `s${index}`, key: `k${index}`, reason: "", kind: "event", event };
          }),
        acceptEvent: async (_, data) => (data === "bad" ? { problem: "no" } : { value: data }),
      },
      hasTaken: (id) => taken.includes(id),
    },
  );
  return { takes: takes.map(({ key, event }) => `${event} → ${key}`), refused, isCut };
}
interface Searched {
  readonly userId?: string;
  readonly taken?: readonly string[];
}

it("gives the oldest event of a name to the first branch that waits for it, and each event to one branch", async () => {
  const stored = ["one", "two", "three"].map((id) => ({ id, name: "paid" }));
  expect((await search(["paid", "paid"], stored)).takes).toEqual(["one → k0", "two → k1"]);
});

it("gives events of several names in the order in which they were stored", async () => {
  const stored = [
    { id: "late", name: "b" },
    { id: "last", name: "a" },
  ];
  expect((await search(["a", "b"], stored)).takes).toEqual(["late → k1", "last → k0"]);
});

it("leaves events of other users, older ones, those that the execution has had, expired ones and refused ones alone", async () => {
  const stored: Stored[] = [
    { id: "of-bob", name: "paid", userId: "bob" },
    { id: "older", name: "paid", isOlder: true },
    { id: "had", name: "paid" },
    { id: "expired", name: "paid", isGone: true },
    { id: "refused", name: "paid", text: "bad" },
    { id: "mine", name: "paid", userId: "ada" },
  ];
  const found = await search(["paid", "paid"], stored, { userId: "ada", taken: ["had"] });
  expect(found.takes).toEqual(["mine → k0"]);
  // A branch with another schema might accept it.
  expect(found.refused).toEqual(["refused of s0", "refused of s1"]);
});

it("stops after 8,000,000 characters, and says that there may be more", async () => {
  const stored = ["one", "two", "three"].map((id) => ({ id, name: id, text: "x".repeat(5_000_000) }));
  const found = await search(["one", "two", "three"], stored);
  expect(found).toMatchObject({ takes: ["one → k0", "two → k1"], isCut: true });
});
