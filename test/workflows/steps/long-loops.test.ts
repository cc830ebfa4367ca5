import { andAll, andSleep, andThen, andWaitFor, defineWorkflow } from "agentserve";
import { createServer } from "agentserve/testing";
import { expect, it, onTestFinished } from "vitest";
import { bySize } from "../../harness/size.ts";
import { describeInProcess } from "../../harness/server.ts";

const waiting = defineWorkflow({ id: "waiting" }).andForEach({
  id: "each",
  items: () => Array.from({ length: 120 }, (_, index) => index),
  concurrency: Infinity,
  step: andAll({
    id: "all",
    steps: [
      andWaitFor({ id: "paid", event: "paid", key: "k".repeat(200), timeout: "1d" }),
      andSleep({ id: "nap", duration: "2d" }),
    ],
  }),
});

describeInProcess("lists of executions with many branches that wait", { workflows: [waiting] }, (server) => {
  it("lists executions with many waiting branches with the suspension of the state, by each of its kinds", async () => {
    const id = "listed";
    await server.post("/workflows/waiting/execute", { input: {}, options: { executionId: id } });
    const { suspension } = (await server.get(`/workflows/waiting/executions/${id}/state`)).body.data;
    expect(suspension).toMatchObject({ kind: "event", event: "paid", pendingCount: 240 });
    for (const kind of ["event", "timer", "event,person"]) {
      const { items } = (await server.get(`/executions?kind=${kind}&id=${id}`)).body.data;
      expect(items.map((item: any) => item.suspension)).toEqual([suspension]);
    }
    expect((await server.get(`/executions?kind=person,system&id=${id}`)).body.data.items).toEqual([]);
  });
});

it("pages through a long loop and leaves other work its turns", async () => {
  const count = bySize(2_000, 10_000);
  const long = defineWorkflow({ id: "long" }).andForEach({
    id: "each",
    items: () => Array.from({ length: count }, (_, index) => index),
    concurrency: 100,
    step: andThen({ id: "pay", execute: ({ data }) => data }),
  });
  const server = createServer({ workflows: [long] });
  onTestFinished(() => server.close());
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ input: {}, options: { executionId: "x" } });
  await server.fetch(new Request("http://x/workflows/long/execute", { method: "POST", headers, body }));
  const read = async (query: string): Promise<any> => {
    const response = await server.fetch(new Request(`http://x/workflows/long/executions/x/steps?${query}`));
    return ((await response.json()) as any).data;
  };
  let turns = 0;
  let isOver = false;
  const takeTurn = (): void => {
    turns++;
    if (!isOver) setImmediate(takeTurn);
  };
  const [loop] = (await read("")).items;
  expect(loop.count).toEqual({ total: count, success: count });
  setImmediate(takeTurn);
  const first = await read("under=each");
  isOver = true;
  const next = await read(`under=each&cursor=${first.nextCursor}`);
  const paths = [...first.items, ...next.items].map(({ path }) => path);
  expect(paths.filter((path) => path.endsWith("/pay"))).toEqual(
    Array.from({ length: 200 }, (_, index) => `each/${index}/pay`),
  );
  console.log(`steps of a loop of ${count} items: ${turns} turns of other work`);
  // An item has two rows, of which 250 are read in one turn.
  expect(turns).toBeGreaterThan((2 * count) / 400);
});
