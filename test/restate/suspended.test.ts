import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { bySize } from "../harness/size.ts";
import { Replicas, type Replica } from "./replicas.ts";
import { RestateServer } from "./restate-server.ts";

const count = bySize(2_000, 10_000);
/** The number of executions that are started concurrently. */
const atOnce = 64;
const timeout = 20 * patienceMs;

let server: RestateServer;
let replicas: Replicas;
beforeAll(async () => {
  server = await RestateServer.start();
  replicas = await Replicas.start({ count: 2, ingress: [server.ingress], admin: server.admin });
});
afterAll(async () => {
  replicas?.close();
  await server?.remove();
});

async function list(replica: Replica, search: string): Promise<{ ms: number; ids: string[]; cursor: string }> {
  const sentAt = performance.now();
  const response = await replica.get(`/workflows/ask/executions?${search}`);
  const { data } = (await response.json()) as { data: { items: { executionId: string }[]; nextCursor: string } };
  const ids = data.items.map(({ executionId }) => executionId);
  return { ms: Math.round(performance.now() - sentAt), ids, cursor: data.nextCursor };
}

describe(`${count} suspended executions`, () => {
  it("suspended executions keep no invocation in Restate", { timeout }, async () => {
    const startedAt = performance.now();
    let next = 0;
    const work = async (): Promise<void> => {
      for (let index = next++; index < count; index = next++) {
        const replica = replicas.all[index % 2]!;
        let answer = await replica.execute("ask", `s${index}`);
        // A busy machine: the call was refused, or it may have been accepted.
        while (answer.startsWith("503")) answer = await replica.execute("ask", `s${index}`);
        expect(["200 suspended", "409 undefined"]).toContain(answer);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    console.log(`${count} suspended executions were made in ${seconds} s`);
    const kept = () => replicas.query<{ n: number }>("select count(*) as n from sys_invocation");
    await expect.poll(kept, { timeout: patienceMs, interval: 500 }).toEqual([{ n: 0 }]);
    const [indexed] = await replicas.query<{ n: number }>("select count(*) as n from state where key = 'index'");
    expect(indexed).toEqual({ n: count });
  });

  it(`a list of 50 among ${count} suspended executions takes less than 1 s`, { timeout }, async () => {
    const search = "status=suspended&limit=50";
    const times: number[] = [];
    for (let tries = 0; tries < 3; tries++) {
      const first = await list(replicas.all[0]!, search);
      const second = await list(replicas.all[1]!, `${search}&cursor=${first.cursor}`);
      expect(new Set([...first.ids, ...second.ids]).size).toBe(100);
      times.push(first.ms, second.ms);
    }
    console.log(`a list of 50 among ${count} takes, in ms:`, times.join(" "));
    expect(times.toSorted((a, b) => a - b)[2]).toBeLessThan(1_000); // the median
  });
});
