import { readFileSync } from "node:fs";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import * as v from "valibot";
import { andAll, andTap, andThen, andWhen, defineWorkflow } from "agentserve";
import type { WorkflowDefinition } from "../../src/engine/definition.ts";
import { patienceMs } from "../harness/patience.ts";
import { openPlace } from "../harness/places.ts";
import { startServer, type TestServer } from "../harness/server.ts";

const folder = mkdtempSync(join(tmpdir(), "agentserve-changes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

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

const table = readTable();

it("documents every case, and nothing else", () => {
  expect(table.map(({ change }) => change).toSorted()).toEqual(Object.keys(cases).toSorted());
});

describe.each(table)("$change", ({ change, resumed, recovered }) => {
  const { before = usual, after, result } = cases[change]!;
  const path = "/workflows/changing";

  async function open(definition: WorkflowDefinition | undefined, file: string): Promise<TestServer> {
    const backend = await openPlace(join(folder, file));
    const workflows = definition ? [definition] : [];
    return startServer("in process", { config: { workflows, backend, server: { limits: { drainMs: 1 } } } });
  }
  const stateOf = async (server: TestServer) => (await server.get(`${path}/executions/e/state`)).body.data;

  it(`${change} while an execution is suspended: resume ${resumed}`, async () => {
    const file = `${change}.db`;
    const first = await open(before(), file);
    const { body } = await first.post(`${path}/execute`, { input: {}, options: { executionId: "e" } });
    expect(body.data.status).toBe("suspended");
    await first.close();
    const second = await open(after(), file);
    const answer = await second.post(`${path}/executions/e/resume`, { resumeData: 1 });
    if (resumed === "continues") expect(answer.body.data).toMatchObject({ status: "completed", result });
    else {
      expect(`${answer.status} ${answer.body.error}`).toBe(resumed);
      expect(answer.body.executionId).toBe(answer.status === 409 ? "e" : undefined);
      expect(await stateOf(second)).toMatchObject({ status: "suspended", suspension: { reason: "Waits" } });
    }
    await second.close();
    if (resumed === "continues") return;
    const third = await open(before(), file); // the old code again
    const back = await third.post(`${path}/executions/e/resume`, { resumeData: 1 });
    expect(back.body.data.status).toBe("completed");
    await third.close();
  });

  it(`${change} while an execution runs and the process dies: ${recovered}`, async () => {
    const file = `${change} running.db`;
    hangs = true;
    const first = await open(before(), file);
    await first.request(`${path}/execute`, {
      method: "POST",
      headers: { "content-type": "application/json", prefer: "respond-async" },
      body: JSON.stringify({ input: {}, options: { executionId: "e" } }),
    });
    const events = async () => {
      const controller = new AbortController();
      const response = await first.send(`${path}/executions/e/stream`, { signal: controller.signal });
      const reader = response.body!.getReader();
      let text = "";
      while (!text.includes('"from":"wait"') && !text.includes('"from":"sub/wait"'))
        text += new TextDecoder().decode((await reader.read()).value);
      controller.abort();
    };
    await events();
    await first.close();
    hangs = false;
    recovering = true;
    const second = await open(after(), file);
    if (recovered === "continues") {
      await expect.poll(async () => (await stateOf(second)).status, { timeout: patienceMs }).toBe("completed");
      expect((await stateOf(second)).result).toEqual(result);
    } else {
      await expect.poll(async () => (await stateOf(second)).status, { timeout: patienceMs }).not.toBe("running");
      const { status, suspension } = await stateOf(second);
      expect(`${status}: ${suspension.reason}`).toBe(recovered);
      expect(suspension.stepId).toMatch(/^(sub\/)?wait$/);
      const { events: seen } = await second.get(`${path}/executions/e/stream`);
      expect(seen.at(-2)).toMatchObject({ type: "workflow-suspended", suspension: { reason: suspension.reason } });
    }
    await second.close();
    if (recovered !== "continues") {
      const third = await open(before(), file); // the old code again
      const back = await third.post(`${path}/executions/e/resume`, { resumeData: 1 });
      expect(back.body.data.status).toBe("completed");
      const { events: whole } = await third.get(`${path}/executions/e/stream`);
      const numbers = whole.slice(0, -1).map(({ seq }) => seq);
      expect(numbers).toEqual(numbers.map((_, index) => index + 1));
      await third.close();
    }
    recovering = false;
  });
});

it("compares with the code that it went on with, not only with the first", async () => {
  const backend = await openPlace(join(folder, "again.db"));
  const ask = (id: string) => andThen({ id, execute: ({ suspend, resumeData }) => resumeData ?? suspend() });
  const short = () => workflow(ask("one"));
  const long = () => workflow(ask("one"), ask("two"));
  const open = (definition: WorkflowDefinition) =>
    startServer("in process", { config: { workflows: [definition], backend } });
  const resume = (server: TestServer) => server.post("/workflows/changing/executions/e/resume", { resumeData: 1 });
  const first = await open(short());
  await first.post("/workflows/changing/execute", { input: {}, options: { executionId: "e" } });
  await first.close();
  const second = await open(long());
  expect((await resume(second)).body.data).toMatchObject({ status: "suspended", suspension: { stepId: "two" } });
  await second.close();
  const third = await open(short());
  expect((await resume(third)).body.error).toBe("Workflow changed: step two was removed");
  await third.close();
  const fourth = await open(long());
  expect((await resume(fourth)).body.data.status).toBe("completed");
  await fourth.close();
});

it("continues on code with fewer retries than the journal has attempts", async () => {
  const backend = await openPlace(join(folder, "retries.db"));
  let tries = 0;
  const flow = (attempts: number) =>
    workflow(
      andThen({
        id: "flaky",
        retry: { attempts },
        execute: () => {
          if (++tries < 3) throw new Error("not yet");
          return "at last";
        },
      }),
      wait(),
    );
  const open = (attempts: number) => startServer("in process", { config: { workflows: [flow(attempts)], backend } });
  const first = await open(3);
  await first.post("/workflows/changing/execute", { input: {}, options: { executionId: "e" } });
  await first.close();
  const second = await open(1);
  const back = await second.post("/workflows/changing/executions/e/resume", { resumeData: 1 });
  expect(back.body.data).toMatchObject({ status: "completed", result: "at last wait1" });
  expect(tries, "a recorded attempt does not run again").toBe(3);
  await second.close();
});

it("a failure that was final stays final on code with more retries", async () => {
  const backend = await openPlace(join(folder, "more-retries.db"));
  let tries = 0;
  const flow = (attempts: number) => {
    const fails = () => {
      tries++;
      throw new Error("Down");
    };
    const lost = andThen({ id: "lost", retry: { attempts }, execute: fails });
    return workflow({ type: "andRace", id: "race", steps: [lost, wait()] });
  };
  const open = (attempts: number) => startServer("in process", { config: { workflows: [flow(attempts)], backend } });
  const first = await open(1);
  await first.post("/workflows/changing/execute", { input: {}, options: { executionId: "e" } });
  await first.close();
  const second = await open(5);
  const back = await second.post("/workflows/changing/executions/e/resume", { resumeData: 1 });
  expect(back.body.data).toMatchObject({ status: "completed", result: "0 wait1" });
  expect(tries).toBe(1);
  await second.close();
});

it("does not continue where the same steps would have led elsewhere", async () => {
  const backend = await openPlace(join(folder, "elsewhere.db"));
  const flow = (schema?: ReturnType<typeof v.unknown>) => {
    const inner = defineWorkflow({ id: "inner", ...(schema && { input: schema }) }).andThen(wait() as never);
    return workflow({ type: "andWorkflow", id: "sub", workflow: inner });
  };
  const open = (definition: WorkflowDefinition) =>
    startServer("in process", { config: { workflows: [definition], backend } });
  const first = await open(flow(v.unknown()));
  await first.post("/workflows/changing/execute", { input: {}, options: { executionId: "e" } });
  await first.close();
  const second = await open(flow());
  const answer = await second.post("/workflows/changing/executions/e/resume", { resumeData: 1 });
  expect([answer.status, answer.body.error]).toEqual([
    409,
    "Workflow changed: the journal has a result for sub<#1 that this version does not produce",
  ]);
  await second.close();
  const third = await open(flow(v.unknown()));
  const back = await third.post("/workflows/changing/executions/e/resume", { resumeData: 1 });
  expect(back.body.data).toMatchObject({ status: "completed", result: "0 wait1" });
  await third.close();
});

function readTable(): { change: string; resumed: string; recovered: string }[] {
  const lines = readFileSync("docs/durability.md", "utf8").split("\n");
  const first = lines.indexOf("| change | resume answers | an execution that was running |") + 2;
  const rows = lines.slice(first, lines.indexOf("", first)).map((line) => line.slice(2, -2).split(" | "));
  return rows.map(([change = "", resumed = "", recovered = ""]) => ({ change, resumed, recovered }));
}
