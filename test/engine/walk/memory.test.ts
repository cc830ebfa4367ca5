import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createServer, defineWorkflow, embedded, type Server } from "agentserve";
import { expect, it } from "vitest";
import { newFile } from "../../harness/folders.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const megabyte = 1024 * 1024;
const valueBytes = 3 * megabyte;
const count = 20;

it("costs a walk less than 1 MB of heap to carry 20 values of 3 MB, live and after a replay", async () => {
  const small = await measure(10);
  const large = await measure(valueBytes);
  const beyond = { live: large.live - small.live, replayed: large.replayed - small.replayed };
  const print = (bytes: number): string => `${(bytes / megabyte).toFixed(3)} MB`;
  console.log(
    `heap of a walk over ${count} values of 3 MB beyond one over ${count} values of 10 bytes:`,
    `${print(beyond.live)} live, ${print(beyond.replayed)} after a restart and a replay`,
  );
  expect(beyond.live).toBeLessThan(megabyte);
  expect(beyond.replayed).toBeLessThan(megabyte);
});

/** The heap in the last step of an execution: when all values were just made, and when they were replayed from the file. */
async function measure(bytes: number): Promise<{ live: number; replayed: number }> {
  const file = newFile();
  const heaps: number[] = [];
  // Each value is a text of its own; a step reads the one before it.
  let workflow: any = defineWorkflow({ id: "values" });
  for (let index = 0; index < count; index++) {
    workflow = workflow.andThen({
      id: `value${index}`,
      execute: () => ({ index, text: String.fromCharCode(97 + index).repeat(bytes) }),
    });
  }
  workflow = workflow
    .andThen({ id: "small", execute: ({ data }: { data: { text: string } }) => data.text.length })
    .andThen({
      id: "last",
      async execute({ resumeData, suspend, getStepData }: any) {
        heaps.push(await heapAfterCollection());
        if (resumeData === undefined) await suspend();
        return getStepData("value7").text.length;
      },
    });
  const open = (): Server => createServer({ workflows: [workflow], backend: embedded({ path: file }) });

  const first = open();
  const id = { executionId: "x" };
  expect(await post(first, "/workflows/values/execute", { input: {}, options: id })).toMatchObject({
    status: "suspended",
  });
  await first.close();
  const second = open();
  const resumed = await post(second, "/workflows/values/executions/x/resume", { resumeData: true });
  expect(resumed).toMatchObject({ status: "completed", result: bytes });
  await second.close();
  const [live, replayed] = heaps;
  return { live: live!, replayed: replayed! };
}

async function post(server: Server, path: string, body: unknown): Promise<unknown> {
  const headers = { "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  const response = await server.fetch(new Request(`http://localhost${path}`, init));
  return ((await response.json()) as { data: unknown }).data;
}

async function heapAfterCollection(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    await turn();
    collect();
  }
  return process.memoryUsage().heapUsed;
}
