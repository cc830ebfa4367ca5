import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import * as v from "valibot";
import { andAll, andTap, andThen, andWhen, defineWorkflow } from "agentserve";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import { createSharedFolder } from "../harness/folders.ts";
import { patienceMs } from "../harness/patience.ts";
import { openPlace } from "../harness/places.ts";
import { startServer, type TestServer } from "../harness/server.ts";

const folder = createSharedFolder("changes");

/** Set while a step must not end, so that the process leaves it running. */
let hangs = false;
const pass = (id: string) => andThen({ id, execute: ({ data }) => `${String(data)} ${id}` });
const tap = (id: string) => andTap({ id, execute: () => {} });
/** Suspends, or hangs; goes on with what it is given, or when it is run again. */
const wait = () =>
  andThen({
    id: "wait",
    execute: async ({ data, suspend, resumeData, attempt }) => {
      if (hangs) await new Promise(() => {});
      if (resumeData === undefined && !recovering) await suspend("Waits");
      return `${String(data)} wait${attempt}`;
    },
  });
let recovering = false;

const workflow = (...steps: unknown[]): WorkflowDefinition =>
  // The chain's types follow each step; here they are put together at run time.
  steps.reduce((chain: any, step: any) => chain[step.type](step), begin()) as WorkflowDefinition;
const begin = (): any => defineWorkflow({ id: "changing" }).andThen({ id: "zero", execute: () => "0" });
const sub = (...steps: unknown[]) => {
  const inner = steps.reduce((chain: any, step: any) => chain[step.type](step), defineWorkflow({ id: "inner" }) as any);
  return { type: "andWorkflow", id: "sub", workflow: inner };
};
const all = (...steps: any[]) => andAll({ id: "group", steps: steps as never });
const when = (step: any) => andWhen({ id: "maybe", condition: () => true, step });

interface Case {
  readonly before?: () => WorkflowDefinition;
  readonly after: () => WorkflowDefinition | undefined;
  /** When it goes on: with what. */
  readonly result?: string | string[];
}
const usual = () => workflow(pass("first"), wait(), pass("last"));

/** By the names that the documentation gives them. */
const cases: Record<string, Case> = {
  "the body of a step": {
    after: () => workflow(pass("first"), wait(), andThen({ id: "last", execute: ({ data }) => `${String(data)} new` })),
    result: "0 first wait1 new",
  },
  "a step appended": {
    after: () => workflow(pass("first"), wait(), pass("last"), pass("more")),
    result: "0 first wait1 last more",
  },
  "a later step inserted": {
    after: () => workflow(pass("first"), wait(), pass("extra"), pass("last")),
    result: "0 first wait1 extra last",
  },
  "a later step removed": { after: () => workflow(pass("first"), wait()), result: "0 first wait1" },
  "a later step renamed": {
    after: () => workflow(pass("first"), wait(), pass("final")),
    result: "0 first wait1 final",
  },
  "a later step retyped": { after: () => workflow(pass("first"), wait(), tap("last")), result: "0 first wait1" },
  "a step inserted before": { after: () => workflow(pass("extra"), pass("first"), wait(), pass("last")) },
  "a begun step removed": { after: () => workflow(wait(), pass("last")) },
  "the current step removed": { after: () => workflow(pass("first"), pass("last")) },
  "every step from the current one on removed": { after: () => workflow(pass("first")) },
  "a begun step renamed": { after: () => workflow(pass("start"), wait(), pass("last")) },
  "a begun step retyped": { after: () => workflow(tap("first"), wait(), pass("last")) },
  "a begun step nested in a new one": { after: () => workflow(all(pass("first")), wait(), pass("last")) },
  "the current step moved into the one before": {
    before: () => workflow(all(pass("first")), wait(), pass("last")),
    after: () => workflow(all(pass("first"), wait()), pass("last")),
  },
  "a branch added beside the current step": {
    before: () => workflow(all(pass("first"), wait()), pass("last")),
    after: () => workflow(all(pass("first"), wait(), pass("more")), pass("last")),
  },
  "a step appended inside the current sub-workflow": {
    before: () => workflow(sub(pass("first"), when(wait()))),
    after: () => workflow(sub(pass("first"), when(wait()), pass("more"))),
    result: "0 first wait1 more",
  },
  "a begun step of a sub-workflow renamed": {
    before: () => workflow(sub(pass("first"), wait())),
    after: () => workflow(sub(pass("start"), wait())),
  },
  "the workflow deleted": { after: () => undefined },
};

const path = "/workflows/changing";
/** Serves one version of the workflow after the other on the same file. Each server closes the one before it. */
async function createServe(file: string) {
  const backend = await openPlace(join(folder, file));
  let last: TestServer | undefined;
  onTestFinished(() => last?.close());
  return async (definition: WorkflowDefinition | undefined) => {
    await last?.close();
    const workflows = definition ? [definition] : [];
    const config = { workflows, backend, server: { limits: { drainMs: 1 } } };
    const server = (last = await startServer("in process", { config }));
    return {
      ...server,
      begin: () => server.post(`${path}/execute`, { input: {}, options: { executionId: "e" } }),
      resume: () => server.post(`${path}/executions/e/resume`, { resumeData: 1 }),
      stream: () => server.get(`${path}/executions/e/stream`),
      state: async () => (await server.get(`${path}/executions/e/state`)).body.data,
    };
  };
}

const table = readTable();

it("docs/durability.md has every tested code change, and no other", () => {
  expect(table.map(({ change }) => change).toSorted()).toEqual(Object.keys(cases).toSorted());
});

describe.each(table)("$change", ({ change, resumed, recovered }) => {
  const { before = usual, after, result } = cases[change]!;

  it(`${change} while an execution is suspended: resume ${resumed}`, async () => {
    const serve = await createServe(`${change}.db`);
    const first = await serve(before());
    expect((await first.begin()).body.data.status).toBe("suspended");
    const second = await serve(after());
    const answer = await second.resume();
    if (resumed === "continues") return expect(answer.body.data).toMatchObject({ status: "completed", result });
    expect(`${answer.status} ${answer.body.error}`).toBe(resumed);
    expect(answer.body.executionId).toBe(answer.status === 409 ? "e" : undefined);
    expect(await second.state()).toMatchObject({ status: "suspended", suspension: { reason: "Waits" } });
    const third = await serve(before()); // the old code again
    expect((await third.resume()).body.data.status).toBe("completed");
  });

  it(`${change} while an execution runs and the process dies: ${recovered}`, async () => {
    const serve = await createServe(`${change} running.db`);
    hangs = true;
    const first = await serve(before());
    await first.request(`${path}/execute`, {
      method: "POST",
      headers: { "content-type": "application/json", prefer: "respond-async" },
      body: JSON.stringify({ input: {}, options: { executionId: "e" } }),
    });
    const leaving = new AbortController();
    const { body } = await first.send(`${path}/executions/e/stream`, { signal: leaving.signal });
    const reader = body!.getReader();
    let text = "";
    while (!/"from":"(sub\/)?wait"/.test(text)) text += new TextDecoder().decode((await reader.read()).value);
    leaving.abort();
    hangs = false;
    recovering = true;
    onTestFinished(() => void (recovering = false));
    const second = await serve(after());
    await expect.poll(async () => (await second.state()).status, { timeout: patienceMs }).not.toBe("running");
    const { status, suspension, result: found } = await second.state();
    if (recovered === "continues") return expect([status, found]).toEqual(["completed", result]);
    expect(`${status}: ${suspension.reason}`).toBe(recovered);
    expect(suspension.stepId).toMatch(/^(sub\/)?wait$/);
    const { events: seen } = await second.stream();
    expect(seen.at(-2)).toMatchObject({ type: "workflow-suspended", suspension: { reason: suspension.reason } });
    const third = await serve(before()); // the old code again
    expect((await third.resume()).body.data.status).toBe("completed");
    const numbers = (await third.stream()).events.slice(0, -1).map(({ seq }) => seq);
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
  });
});

it("compares changed code with the last version that an execution ran on, not only with the first", async () => {
  const ask = (id: string) => andThen({ id, execute: ({ suspend, resumeData }) => resumeData ?? suspend() });
  const short = () => workflow(ask("one"));
  const long = () => workflow(ask("one"), ask("two"));
  const serve = await createServe("again.db");
  await (await serve(short())).begin();
  const { body } = await (await serve(long())).resume();
  expect(body.data).toMatchObject({ status: "suspended", suspension: { stepId: "two" } });
  expect((await (await serve(short())).resume()).body.error).toBe("Workflow changed: step two was removed");
  expect((await (await serve(long())).resume()).body.data.status).toBe("completed");
});

it("continues an execution on code with fewer retries than its journal has attempts", async () => {
  let tries = 0;
  const execute = () => {
    if (++tries < 3) throw new Error("not yet");
    return "at last";
  };
  const flow = (attempts: number) => workflow(andThen({ id: "flaky", retry: { attempts }, execute }), wait());
  const serve = await createServe("retries.db");
  await (await serve(flow(3))).begin();
  const back = await (await serve(flow(1))).resume();
  expect(back.body.data).toMatchObject({ status: "completed", result: "at last wait1" });
  expect(tries, "a recorded attempt does not run again").toBe(3);
});

it("a failure that was final stays final on code with more retries", async () => {
  let tries = 0;
  const execute = () => {
    tries++;
    throw new Error("Down");
  };
  const flow = (attempts: number) =>
    workflow({ type: "andRace", id: "race", steps: [andThen({ id: "lost", retry: { attempts }, execute }), wait()] });
  const serve = await createServe("more-retries.db");
  await (await serve(flow(1))).begin();
  const back = await (await serve(flow(5))).resume();
  expect(back.body.data).toMatchObject({ status: "completed", result: "0 wait1" });
  expect(tries).toBe(1);
});

it("does not continue an execution on code whose same steps would have led elsewhere", async () => {
  const flow = (schema?: ReturnType<typeof v.unknown>) => {
    const inner = defineWorkflow({ id: "inner", ...(schema && { input: schema }) }).andThen(wait() as never);
    return workflow({ type: "andWorkflow", id: "sub", workflow: inner });
  };
  const serve = await createServe("elsewhere.db");
  await (await serve(flow(v.unknown()))).begin();
  const answer = await (await serve(flow())).resume();
  expect([answer.status, answer.body.error]).toEqual([
    409,
    "Workflow changed: the journal has a result for sub<#1 that this version does not produce",
  ]);
  const back = await (await serve(flow(v.unknown()))).resume();
  expect(back.body.data).toMatchObject({ status: "completed", result: "0 wait1" });
});

function readTable(): { change: string; resumed: string; recovered: string }[] {
  const lines = readFileSync("docs/durability.md", "utf8").split("\n");
  const first = lines.indexOf("| change | resume answers | an execution that was running |") + 2;
  const rows = lines.slice(first, lines.indexOf("", first)).map((line) => line.slice(2, -2).split(" | "));
  return rows.map(([change = "", resumed = "", recovered = ""]) => ({ change, resumed, recovered }));
}
