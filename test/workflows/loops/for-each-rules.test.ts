// The rules of `concurrency` and `onError`, for any number of items that end in any order.
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import * as v from "valibot";
import { andThen, defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { withBounds } from "../../harness/bounds.ts";
import { chosenBackend } from "../../harness/backends.ts";
import { describeInProcess } from "../../harness/server.ts";
import { bySize } from "../../harness/size.ts";

const loopConcurrency = 7;
const concurrencies = [1, 2, 3, 6, 50, Infinity];
const rules = ["fail", "collect"] as const;

/** What the items of an execution have done. */
class Run {
  readonly begun: number[] = [];
  now = 0;
  most = 0;
  isMended = false;
  /** Items end once so many have been in progress. */
  expected = 0;
  readonly #full = Promise.withResolvers<void>();

  /** Returns a function to call when the item is not in progress any more. */
  begin(item: number, signal: AbortSignal): () => void {
    this.begun.push(item);
    this.most = Math.max(this.most, ++this.now);
    let isOver = false;
    const end = (): void => {
      if (!isOver) this.now--;
      isOver = true;
    };
    signal.addEventListener("abort", end); // its code still runs, and does not count
    if (this.most >= this.expected) this.#full.resolve();
    return end;
  }

  get full(): Promise<void> {
    return this.#full.promise;
  }
}
const runs = new Map<string, Run>();

const input = v.object({
  items: v.array(v.object({ n: v.number(), turns: v.number(), fails: v.boolean(), second: v.number() })),
});
const workflows = concurrencies.flatMap((concurrency) =>
  rules.map((onError) =>
    defineWorkflow({ id: `${onError}-${concurrency}`, input })
      .andThen({ id: "list", execute: ({ data }) => data.items })
      .andForEach({
        id: "each",
        concurrency,
        onError,
        steps: [
          andThen({
            id: "first",
            execute: async ({ data, executionId, signal }) => {
              const run = runs.get(executionId)!;
              const end = run.begin(data.n, signal);
              await run.full;
              for (let turn = 0; turn < data.turns; turn++) await nextTurn();
              end();
              if (data.fails && !run.isMended) throw new Error(`no ${data.n}`);
              return { n: data.n, second: data.second };
            },
          }),
          andThen({
            id: "second",
            execute: async ({ data }: { data: { n: number; second: number } }) => {
              for (let turn = 0; turn < data.second; turn++) await nextTurn();
              return data.n * 2;
            },
          }),
        ],
      }),
  ),
);

const item = fc.record({
  turns: fc.nat({ max: 4 }),
  fails: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  second: fc.nat({ max: 2 }),
});
const plan = fc.record({
  items: fc.array(item, { minLength: 0, maxLength: 50 }),
  concurrency: fc.constantFrom(...concurrencies),
  onError: fc.constantFrom(...rules),
});

let count = 0;
describeInProcess("andForEach", withBounds({ loopConcurrency }, { workflows }), (server) => {
  it("keeps andForEach to its concurrency, the order of its items and onError", async () => {
    const property = fc.asyncProperty(plan, async ({ items, concurrency, onError }) => {
      const id = `rules${++count}`;
      const run = new Run();
      runs.set(id, run);
      const path = `/workflows/${onError}-${concurrency}`;
      const list = items.map((one, n) => ({ n, ...one }));
      const json = { input: { items: list }, options: { executionId: id } };
      const { status, body } = await server.post(`${path}/execute`, json);
      const most = Math.min(concurrency, loopConcurrency, items.length);
      expect(run.most).toBeLessThanOrEqual(most);
      const failing = list.filter(({ fails }) => fails);
      if (onError === "collect" || failing.length === 0) {
        expect(status).toBe(200);
        const begun = chosenBackend.isDistributed ? run.begun.toSorted((a, b) => a - b) : run.begun;
        expect(begun).toEqual(list.map(({ n }) => n)); // in order, each once; on Restate some begin together in any order
        const values = list.map(({ n, fails }) =>
          onError === "fail"
            ? n * 2
            : fails
              ? { status: "error", error: `no ${n}` }
              : { status: "success", value: n * 2 },
        );
        expect(body.data.result).toEqual(values);
        return;
      }
      expect(status).toBe(500);
      const { events } = await server.get(`${path}/executions/${id}/stream`);
      const completed = new Set(events.filter(({ type }) => type === "step-complete").map(({ from }) => from));
      const before = [...run.begun];
      run.begun.length = 0;
      run.isMended = true;
      const retried = await server.post(`${path}/executions/${id}/retry`, {});
      expect(retried.body.data.result).toEqual(list.map(({ n }) => n * 2));
      // Items that were recorded do not run again; those that failed or were aborted do, before those that had not begun.
      const again = before.filter((n) => !completed.has(`each/${n}/first`));
      const rest = list.map(({ n }) => n).filter((n) => !before.includes(n));
      expect(run.begun.toSorted((a, b) => a - b)).toEqual([...again, ...rest].toSorted((a, b) => a - b));
      expect(run.most).toBeLessThanOrEqual(most);
    });
    await fc.assert(property, { numRuns: bySize(40, 500) });
  });

  it("takes as many items of andForEach at once as it may", async () => {
    for (const concurrency of concurrencies) {
      const id = `most${++count}`;
      const run = new Run();
      run.expected = Math.min(concurrency, loopConcurrency);
      runs.set(id, run);
      const items = Array.from({ length: 20 }, (_, n) => ({ n, turns: 0, fails: false, second: 0 }));
      await server.post(`/workflows/fail-${concurrency}/execute`, { input: { items }, options: { executionId: id } });
      expect(run.most).toBe(Math.min(concurrency, loopConcurrency));
    }
  });
});
