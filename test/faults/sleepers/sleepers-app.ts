// Workflows that sleep and wait, on a file. The order `begin` starts many executions, `late` returns the lateness of their wakes.
import { embedded } from "../../../src/backends/embedded/define.ts";
import type { Server } from "../../../src/server/create.ts";
import { defineWorkflow } from "../../../src/workflows/define.ts";
import { withBounds } from "../../harness/bounds.ts";
import type { Hosted } from "../../harness/hosted.ts";

/** Starts executions that sleep until `from`, each `every` milliseconds later than the one before. */
export interface Begin {
  readonly workflow: string;
  readonly prefix: string;
  readonly count: number;
  readonly from: number;
  readonly every: number;
}

export default function create({ file }: { file: string }): Hosted {
  /** The lateness of each wake, in milliseconds. */
  const late: number[] = [];
  const naps = defineWorkflow({ id: "naps" })
    .andSleepUntil({ id: "nap", date: ({ input }) => String(input["date"]) })
    .andThen({ id: "end", execute: ({ input }) => void late.push(Date.now() - Date.parse(String(input["date"]))) });
  const waits = defineWorkflow({ id: "waits" }).andWaitFor({ id: "go", event: "go", timeout: "1h" });
  const bounds = { queuedExecutions: 1_000, inlineSleepMs: 1_000 };
  return {
    config: withBounds(bounds, { workflows: [naps, waits], backend: embedded({ path: file }) }),
    orders: { begin, late: () => late },
  };
}

const headers = { "content-type": "application/json", prefer: "respond-async" };

async function begin({ workflow, prefix, count, from, every }: Begin, server: Server): Promise<void> {
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
