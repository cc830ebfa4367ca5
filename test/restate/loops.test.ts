import { randomUUID } from "node:crypto";
import { andSleep, andThen, defineWorkflow, embedded } from "agentserve";
import { describe, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { startServer } from "../harness/server.ts";
import { createPlace } from "./waiting-server.ts";

const timeout = 8 * patienceMs;
const count = 1_000;
const items = Array.from({ length: count }, (_, index) => index);

/** Steps of the loops that have run, by execution. */
const ran = new Map<string, number[]>();
const pay = andThen({
  id: "pay",
  execute: ({ data, executionId }) => {
    ran.set(executionId, [...(ran.get(executionId) ?? []), data as number]);
    return (data as number) * 2;
  },
});
const toLoop = (concurrency: number) =>
  defineWorkflow({ id: `each${concurrency}` })
    .andForEach({ id: "each", items: () => items, concurrency, step: pay })
    .andThen({ id: "sum", execute: ({ data }) => (data as number[]).reduce((sum, one) => sum + one, 0) });
const sum = items.reduce((total, one) => total + 2 * one, 0);

describe("loops on Restate", () => {
  for (const concurrency of [1, 10])
    it(`${count} items, ${concurrency} at a time, run once each`, { timeout }, async () => {
      const loop = toLoop(concurrency);
      const place = await createPlace();
      const { server, begin, reach, state } = await place.start([loop]);
      const id = `l-${randomUUID()}`;
      const startedAt = performance.now();
      await begin(id);
      await reach(id, "completed");
      const ms = Math.round(performance.now() - startedAt);
      expect((await state(id)).result).toBe(sum);
      expect(ran.get(id)!.toSorted((a, b) => a - b)).toEqual(items);
      console.log(`a loop of ${count} items, ${concurrency} at a time: ${ms} ms`);
      await server.close();
    });

  it("have the events and results of the embedded engine", { timeout }, async () => {
    const mixed = defineWorkflow({ id: "mixed" })
      .andForEach({
        id: "each",
        items: () => [1, 2, 3],
        onError: "collect",
        step: andThen({
          id: "odd",
          execute: ({ data }) => {
            if (data === 2) throw new Error("even");
            return data;
          },
        }),
      })
      .andDoWhile({
        id: "while",
        step: andThen({ id: "push", execute: ({ data }): any => [...(data as unknown[]), 0] }),
        condition: ({ data }) => (data as unknown[]).length < 6,
      })
      .andForEach({ id: "naps", step: andSleep({ id: "nap", duration: 10 }) })
      .andBranch({
        id: "branch",
        branches: [
          {
            condition: () => true,
            step: andThen({ id: "yes", execute: ({ data }) => String((data as unknown[]).length) }),
          },
          { condition: () => false, step: andThen({ id: "no", execute: () => "no" }) },
        ],
      })
      .andMap({ id: "map", map: { found: { source: "data" } } });
    const read = async (server: Awaited<ReturnType<typeof startServer>>) => {
      const { body } = await server.post("/workflows/mixed/execute", { input: {}, options: { executionId: "m" } });
      const { events } = await server.get("/workflows/mixed/executions/m/stream");
      return { data: body.data.result, events: events.map(({ type, from, seq }: any) => `${seq} ${type} ${from}`) };
    };
    const place = await createPlace();
    const { server } = await place.start([mixed]);
    const onRestate = await read(server);
    await server.close();
    const backend = { name: "embedded", create: () => embedded({ path: ":memory:" }) };
    const local = await startServer("start", { config: { workflows: [mixed] }, backend });
    const onFile = await read(local);
    await local.close();
    expect(onRestate).toEqual(onFile);
    expect(onRestate.data).toEqual({ found: ["6", null] });
  });
});
