import { createServer, defineWorkflow, embedded, type Server } from "agentserve";
import { expect, it, onTestFinished } from "vitest";
import { Store } from "../../src/backends/embedded/store/store.ts";
import { newFile } from "../harness/folders.ts";

const count = 2_500;

it("reads a long journal a page at a time, and lets other work run between two pages", async () => {
  const store = new Store(":memory:", "normal");
  onTestFinished(() => store.close());
  store.transaction(() => {
    store.insertExecution(1, { id: "x", workflowId: "w", input: "{}", context: {}, startAt: 1, steps: [] }, []);
    for (let seq = 1; seq <= count; seq++) {
      const row = { id: store.newRow(), key: `s${seq}#1`, kind: "value", at: seq, body: "1" } as const;
      store.add(1, row, seq, [{ type: "step-start", from: `s${seq}` }]);
    }
  });
  let turns = 0;
  const keys: string[] = [];
  const sizes: number[] = [];
  const turnsBefore: number[] = [];
  for await (const page of store.journals.rows(1)) {
    sizes.push(page.length);
    turnsBefore.push(turns);
    keys.push(...page.map(({ key }) => key));
    setImmediate(() => turns++);
  }
  expect(sizes).toEqual([...Array.from({ length: 10 }, () => 250), 0]);
  expect(turnsBefore).toEqual(Array.from({ length: 11 }, (_, turn) => turn));
  expect(keys).toEqual(Array.from({ length: count }, (_, index) => `s${index + 1}#1`));

  const events: number[] = [];
  for await (const page of store.journals.allEvents("x")) {
    expect(page.length).toBeLessThanOrEqual(1_000);
    events.push(...page.map(({ seq }) => seq));
  }
  expect(events).toEqual(Array.from({ length: count }, (_, index) => index + 1));
});

it("continues an execution of 2,500 recorded steps after a restart, and shows every event once", async () => {
  const file = newFile();
  let runs = 0;
  let workflow: any = defineWorkflow({ id: "long" });
  for (let index = 0; index < count; index++) {
    workflow = workflow.andThen({
      id: `s${index}`,
      execute: ({ data }: { data: { n: number } }) => {
        runs++;
        return { n: data.n + 1 };
      },
    });
  }
  workflow = workflow.andThen({
    id: "ask",
    execute: ({ data, suspend, resumeData }: any) => (resumeData === undefined ? suspend() : data.n),
  });
  const open = (): Server => createServer({ workflows: [workflow], backend: embedded({ path: file }) });

  const first = open();
  const started = await send(first, "/workflows/long/execute", { input: { n: 0 }, options: { executionId: "x" } });
  expect(JSON.parse(started).data).toMatchObject({ status: "suspended", suspension: { suspendedStepIndex: count } });
  await first.close();
  const second = open();
  onTestFinished(() => second.close());
  const resumed = await send(second, "/workflows/long/executions/x/resume", { resumeData: true });
  expect(JSON.parse(resumed).data).toMatchObject({ status: "completed", result: count });
  expect(runs).toBe(count);
  const stream = await send(second, "/workflows/long/executions/x/stream");
  const seqs = [...stream.matchAll(/^id: (\d+)$/gm)].map(([, seq]) => Number(seq));
  // A start and a completion of every step, the workflow's start, its suspension and its completion.
  expect(seqs).toEqual(Array.from({ length: 2 * (count + 1) + 3 }, (_, index) => index + 1));
});

async function send(server: Server, path: string, body?: unknown): Promise<string> {
  const headers = { "content-type": "application/json" };
  const init = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
  return (await server.fetch(new Request(`http://localhost${path}`, init))).text();
}
