// A server on a file, as a process of its own that starts many executions by itself: node --expose-gc host.ts <file>
import { embedded } from "../../../src/backends/embedded/define.ts";
import { createServer } from "../../../src/server/create.ts";
import { defineWorkflow } from "../../../src/workflows/define.ts";
import { keepRecords } from "../../harness/logged.ts";

keepRecords();

/** The lateness of each wake, in milliseconds. */
const late: number[] = [];
const naps = defineWorkflow({ id: "naps" })
  .andSleepUntil({ id: "nap", date: ({ input }) => String(input["date"]) })
  .andThen({ id: "end", execute: ({ input }) => void late.push(Date.now() - Date.parse(String(input["date"]))) });
const waits = defineWorkflow({ id: "waits" }).andWaitFor({ id: "go", event: "go", timeout: "1h" });
const server = createServer({
  workflows: [naps, waits],
  backend: embedded({ path: process.argv[2]! }),
  server: { limits: { queuedExecutions: 1_000, inlineSleepMs: 1_000 } },
});
const { url } = await server.listen({ port: 0 });
process.send!(url);

/** Sent by the test. */
export type Order =
  | { type: "begin"; workflow: string; prefix: string; count: number; from: number; every: number }
  | { type: "memory" | "late" | "close" };

const headers = { "content-type": "application/json", prefer: "respond-async" };

/** Starts executions that sleep until `from`, each `every` milliseconds later than the one before. */
async function begin({ workflow, prefix, count, from, every }: Order & { type: "begin" }): Promise<void> {
  let next = 0;
  const one = async (): Promise<void> => {
    for (let n = next++; n < count; n = next++) {
      const input = { date: new Date(from + n * every).toISOString() };
      const body = JSON.stringify({ input, options: { executionId: `${prefix}${n}` } });
      const request = new Request(`http://localhost/workflows/${workflow}/execute`, { method: "POST", headers, body });
      const { status } = await server.fetch(request);
      if (status !== 202) throw new Error(`${status}`);
    }
  };
  await Promise.all(Array.from({ length: 20 }, one));
}

process.on("message", async (order: Order) => {
  if (order.type === "begin") await begin(order);
  if (order.type === "close") await server.close();
  if (order.type === "memory") for (let i = 0; i < 3; i++) globalThis.gc!();
  const { heapUsed, external } = process.memoryUsage();
  process.send!({ heap: heapUsed + external, late: order.type === "late" ? late : [] });
  if (order.type === "close") process.disconnect();
});
