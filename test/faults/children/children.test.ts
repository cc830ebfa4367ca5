import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { agentserve } from "../../harness/cli.ts";
import { createFolder } from "../../harness/folders.ts";
import { bySize } from "../../harness/size.ts";
import { startHost } from "../../harness/start-host.ts";
import { until } from "../../harness/waiting.ts";
import { query as read } from "../../workflows/waits/serve.ts";

const kills = bySize(3, 50);
const parents = Array.from({ length: 10 }, (_, index) => `p${index}`);
const items = kills * 40;

it(
  `starts each child once, and waits for it, while the process is killed ${kills} times`,
  { timeout: 600_000 },
  async () => {
    const { start, noted } = createWorld(items);
    let host = await start();
    for (const executionId of parents) {
      const body = { input: {}, options: { executionId } };
      expect(await post(`${host.url}/workflows/parent/execute`, body)).toBe(202);
    }
    for (let n = 0; n < kills; n++) {
      const before = noted().length;
      // Killed when all have made progress: three crashes in a row without a row would suspend an execution.
      await until(() => noted().length > before + 3 * parents.length, "progress");
      await sleep(Math.random() * 100);
      await host.end();
      host = await start();
    }
    const states = async (workflow: string) => {
      const response = await fetch(`${host.url}/workflows/${workflow}/executions?limit=100`);
      const { data } = (await response.json()) as {
        data: { items: { status: string; executionId: string; result: any }[] };
      };
      return data.items;
    };
    await until(async () => (await states("parent")).every(({ status }) => status === "completed"), "all to end");
    const children = await states("child");
    expect(children.map(({ status }) => status)).toEqual(parents.map(() => "completed"));
    const started = noted().filter(([what]) => what === "started");
    const idsOf = (parent: string) => new Set(started.filter(([, of]) => of === parent).map(([, , id]) => id));
    for (const { executionId, result } of await states("parent")) {
      const [id, ...others] = idsOf(executionId);
      expect([executionId, others]).toEqual([executionId, []]);
      expect(result).toEqual({ executionId: id, status: "completed", result: items });
    }
    // Each item once, and once more if it was in flight at a kill.
    for (const { executionId } of children) {
      const work = noted().filter(([what, of]) => what === "work" && of === executionId);
      expect(new Set(work.map(([, , item]) => item)).size).toBe(items);
      expect(work.length - items).toBeLessThanOrEqual(kills);
    }
    expect(started.length, "steps that found their child again").toBeGreaterThan(parents.length);
    console.log(`children: ${kills} kills, ${started.length} starts of ${parents.length} children`);
  },
);

it("cancels a child with its parent, also if the process is killed in between", { timeout: 600_000 }, async () => {
  const { folder, start, query } = createWorld(10_000);
  const ids = Array.from({ length: bySize(20, 200) }, (_, index) => `b${index}`);
  let host = await start();
  const begin = (id: string) =>
    post(`${host.url}/workflows/bound/execute`, { input: {}, options: { executionId: id } });
  for (const id of [...ids, "offline"]) expect(await begin(id)).toBe(202);
  const open = () =>
    query<{ n: number }>("select count(*) as n from executions where workflow = 'child' and ended is null");
  await until(() => open()[0]!.n === ids.length + 1, "the children");
  // Killed while the cancels are answered: some parents are cancelled, and some of their children are not yet.
  const cancels = ids.map((id) =>
    post(`${host.url}/workflows/bound/executions/${id}/cancel`, { reason: "enough" }).catch(() => 0),
  );
  await Promise.race(cancels);
  await host.end();
  // Without a server, a cancel does not reach the child.
  const args = ["runs", "cancel", "offline", "--reason", "enough", "--data", join(folder, "data.db")];
  expect((await agentserve(args).ended).code).toBe(0);
  const left = () =>
    query<{ n: number }>(`select count(*) as n from children join executions as child using (number)
      join executions as parent on parent.number = children.parent where child.ended is null and parent.ended is not null`);
  const cut = left()[0]!.n;
  host = await start();
  await until(() => left()[0]!.n === 0, "the children of cancelled parents to be cancelled by the start");
  for (const id of ids)
    expect([200, 400]).toContain(
      await post(`${host.url}/workflows/bound/executions/${id}/cancel`, { reason: "enough" }),
    );
  await until(() => open()[0]!.n === 0, "the children to be cancelled");
  const reasons = query(
    "select distinct json_extract(last, '$.cancellation.reason') as reason from executions where workflow = 'child'",
  );
  expect(reasons).toEqual([{ reason: "enough" }]);
  console.log(`cancels: ${cut} of ${ids.length} children were open after the kill, and their parents cancelled`);
  expect(cut).toBeGreaterThan(0);
});

const post = async (url: string, body: object): Promise<number> => {
  const headers = { "content-type": "application/json", prefer: "respond-async" };
  return (await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).status;
};

/** A data file and a log, and the processes that use them one after the other. */
function createWorld(itemsOfChild: number) {
  const folder = createFolder("children");
  return {
    folder,
    start: () => startHost(join(import.meta.dirname, "families-app.ts"), { folder, items: itemsOfChild }),
    noted: (): unknown[][] =>
      readFileSync(join(folder, "log"), "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as unknown[]),
    query: <Row>(sql: string): Row[] => read(join(folder, "data.db"), sql),
  };
}
