import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeInProcess } from "../harness/server.ts";
import { chosenBackend } from "../harness/backends.ts";
import { fewOf } from "../harness/few-of.ts";
import { bySize } from "../harness/size.ts";
import { begin, ends, gates, kindOf, statusOf, workflows, type Known } from "./executions-world.ts";

const users = [undefined, "ann", "ben", "a|b'c%"];
const prefixes = ["a", "b", "a-1", "a-", "zz", "b-2"];
const count = 60;

const some = <T>(values: readonly T[]) => fc.subarray([...values], { minLength: 1 });
/** `since` and `until` are the numbers of executions. */
interface Filter {
  workflowId?: string;
  userId?: string;
  status?: string[];
  kind?: string[];
  id?: string;
  cancelled?: boolean;
  since?: number;
  until?: number;
}
const filters = fewOf<Filter>({
  workflowId: fc.constantFrom("alpha", "beta", "gamma", "nope"),
  userId: fc.constantFrom("ann", "ben", "a|b'c%", "nobody"),
  status: some(["running", "suspended", "completed", "error"]),
  kind: some(["person", "request", "system"]),
  id: fc.constantFrom(...prefixes),
  cancelled: fc.boolean(),
  since: fc.integer({ min: 0, max: count - 1 }),
  until: fc.integer({ min: 0, max: count - 1 }),
});

/** The list that docs/workflows.md promises, over all that was started. */
function toExpected(known: readonly Known[], filter: Filter): string[] {
  const { workflowId, userId, status, kind, id, cancelled, since, until } = filter;
  return known
    .filter(
      (one) =>
        (workflowId === undefined || one.workflowId === workflowId) &&
        (userId === undefined || one.userId === userId) &&
        (!status || status.includes(statusOf(one.end))) &&
        (!kind || kind.includes(kindOf(one.end) ?? "none")) &&
        (id === undefined || one.id.startsWith(id)) &&
        (cancelled === undefined || (one.end === "cancelled") === cancelled) &&
        (since === undefined || one.startAt >= known[since]!.startAt) &&
        (until === undefined || one.startAt <= known[until]!.startAt),
    )
    .toSorted((one, other) => other.startAt - one.startAt || (one.id < other.id ? 1 : -1))
    .map((one) => one.id);
}

function toQuery(known: readonly Known[], filter: Filter): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    const isTime = name === "since" || name === "until";
    query.set(name, isTime ? new Date(known[value]!.startAt).toISOString() : String(value));
  }
  return query;
}

describeInProcess("the pages of GET /executions", { workflows }, (server) => {
  const known: Known[] = [];
  beforeAll(async () => {
    for (let number = 0; number < count; number++) {
      const id = `${number % 2 ? "a" : "b"}-${(number * 7) % count}`;
      const workflowId = ["alpha", "beta", "gamma"][(number * 5) % 3]!;
      known.push(
        await begin(server, {
          id,
          workflowId,
          userId: users[number % users.length],
          end: ends[(number * 11 + Math.floor(number / 6)) % ends.length]!,
        }),
      );
    }
  });
  afterAll(() => known.forEach(({ id }) => gates.open(id))); // before the server is closed, which waits for them

  it("page through every execution that matches any filters, once, newest first", async () => {
    await fc.assert(
      fc.asyncProperty(filters, fc.integer({ min: 1, max: 25 }), async (filter, limit) => {
        const query = toQuery(known, filter);
        query.set("limit", String(limit));
        const seen: string[] = [];
        for (let cursor: string | null = ""; cursor !== null;) {
          if (cursor) query.set("cursor", cursor);
          const { items, nextCursor } = (await server.get(`/executions?${query}`)).body.data;
          expect(items.length).toBeLessThanOrEqual(limit);
          if (nextCursor !== null) expect(items.length).toBe(limit);
          seen.push(...items.map(({ executionId }: any) => executionId));
          cursor = nextCursor;
        }
        expect(seen).toEqual(toExpected(known, filter));
      }),
      { numRuns: chosenBackend.isDistributed ? bySize(20, 200) : bySize(40, 2_000) }, // each list on Restate is a scan
    );
  });
});
