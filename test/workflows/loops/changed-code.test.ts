import { join } from "node:path";
import { andThen, defineWorkflow, type StepContext } from "agentserve";
import { describe, expect, it } from "vitest";
import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";
import { createSharedFolder } from "../../harness/folders.ts";
import { openPlace } from "../../harness/places.ts";
import { startServer, type TestServer } from "../../harness/server.ts";

const folder = createSharedFolder("loops");

const wait = (id = "wait") =>
  andThen({
    id,
    execute: ({ data, suspend, resumeData }: StepContext<unknown, unknown, unknown>) =>
      resumeData === undefined ? suspend("Waits") : data,
  });
const pass = (id: string) => andThen({ id, execute: ({ data }) => data });
const condition = () => false;
// The chain's types follow each step; here they are put together at run time.
type Loop = (...steps: unknown[]) => object;
const loops: Record<string, Loop> = {
  andForEach: (...steps) => ({ id: "loop", items: () => [1, 2], steps }),
  andDoWhile: (...steps) => ({ id: "loop", condition, steps }),
  andBranch: (...steps) => ({ id: "loop", branches: steps.map((step) => ({ condition: () => true, step })) }),
};
const chain = (...steps: [type: string, options: object][]): WorkflowDefinition =>
  steps.reduce((workflow: any, [type, options]) => workflow[type](options), defineWorkflow({ id: "changing" }) as any);

let count = 0;
/** Suspends an execution on one version of the code, and resumes it on another. */
async function change(before: WorkflowDefinition, after: WorkflowDefinition) {
  const backend = await openPlace(join(folder, `${++count}.db`));
  const open = (definition: WorkflowDefinition): Promise<TestServer> =>
    startServer("in process", { config: { workflows: [definition], backend } });
  const first = await open(before);
  const { body } = await first.post("/workflows/changing/execute", { input: {}, options: { executionId: "e" } });
  expect(body.data.status).toBe("suspended");
  await first.close();
  const second = await open(after);
  const resumed = await second.post("/workflows/changing/executions/e/resume", { resumeData: 1 });
  await second.close();
  return { status: resumed.status, error: resumed.body.error as string | undefined, data: resumed.body.data };
}

describe.each(Object.entries(loops))("%s", (type, loop) => {
  const path = (id: string) => (type === "andBranch" ? id : `loop/${id}`);

  it("refuses changed code inside a loop that has begun", async () => {
    const before = chain([type, loop(wait(), pass("a"))], ["andThen", pass("end")]);
    const changed: [object, string][] = [
      [loop(wait(), pass("b")), `step ${path("b")} is now where step ${path("a")} was`],
      [loop(wait()), `step end is now where step ${path("a")} was`],
      [loop(wait(), pass("a"), pass("b")), `step loop has a new branch, ${path("b")}`],
      [loop(wait(), wait("a2"), pass("a")), `step ${path("a2")} is now where step ${path("a")} was`],
    ];
    for (const [options, reason] of changed) {
      const { status, error } = await change(before, chain([type, options], ["andThen", pass("end")]));
      expect([status, error]).toEqual([409, `Workflow changed: ${reason}`]);
    }
    const other = type === "andDoWhile" ? "andForEach" : "andDoWhile";
    const { error } = await change(before, chain([other, loops[other]!(wait(), pass("a"))], ["andThen", pass("end")]));
    expect(error).toBe(`Workflow changed: step loop was ${type} and is now ${other}`);
  });

  it("accepts changed code in a loop that has not begun, and after one that has", async () => {
    const free = await change(
      chain(["andThen", wait("first")], [type, loop(pass("a"))]),
      chain(["andThen", wait("first")], [type, loop(pass("b"), pass("c"))]),
    );
    expect(free.data.status).toBe("completed");
    const after = await change(
      chain([type, loop(wait())], ["andThen", pass("end")]),
      chain([type, loop(wait())], ["andThen", andThen({ id: "other", execute: () => "other" })]),
    );
    expect(after.data).toMatchObject(
      type === "andForEach" ? { status: "suspended", suspension: { stepId: "loop/1/wait" } } : { result: "other" },
    );
  });
});

it("keeps the items, concurrency and onError of a loop that has begun", async () => {
  const each = (options: object) =>
    chain([
      "andForEach",
      {
        id: "each",
        steps: [
          wait(),
          andThen({
            id: "work",
            execute: ({ data }: StepContext<number>) => {
              if (data === 1) throw new Error("no 1");
              return data;
            },
          }),
        ],
        ...options,
      },
    ]);
  const { data } = await change(
    each({ items: () => [1, 2, 3], concurrency: 2, onError: "collect" }),
    each({ items: () => [7], concurrency: 1, onError: "fail" }),
  );
  expect(data.suspension.pending.map(({ stepId }: any) => stepId)).toEqual(["each/1/wait", "each/2/wait"]);
});
