import { describe, expect, it } from "vitest";
import * as v from "valibot";
import { andThen, defineAgent, defineTool, defineWorkflow, embedded, jwtAuth } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import { chosenBackend } from "../harness/backends.ts";
import { createGates } from "../harness/gates.ts";
import { createProject } from "../harness/project.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { open } from "./open.ts";

const double = defineWorkflow({ id: "double", input: v.object({ n: v.number() }) }).andThen({
  id: "times",
  execute: ({ data }) => data.n * 2,
});
const asks = defineWorkflow({ id: "asks" }).andThen({
  id: "ask",
  execute: ({ resumeData, suspend }) => resumeData ?? suspend("Well?"),
});

describe("a step", () => {
  it("starts children of a step, whose ids are of the server's own form", async () => {
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "both",
      async execute({ runtime }) {
        const one = await runtime.start(double, { n: 1 });
        const two = await runtime.execute(double, { n: 2 });
        return { one: one.executionId, first: await one.result(), two };
      },
    });
    const { runtime } = open({ workflows: [parent, double] });
    const outcome = await runtime.execute(parent, {});
    const id = expect.stringMatching(/^child:[\w-]{22}$/) as string;
    expect(outcome).toMatchObject({
      result: {
        one: id,
        first: { executionId: id, status: "completed", result: 2 },
        two: { executionId: id, status: "completed", result: 4 },
      },
    });
    const { items } = await runtime.executions.list({ workflowId: "double" });
    expect(new Set(items.map(({ executionId }) => executionId)).size).toBe(2);
  });

  it("finds the children of a retried step by their order or by their keys", async () => {
    const seen: string[][] = [];
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "all",
      retry: { attempts: 3 },
      async execute({ runtime, attempt }) {
        const keys = attempt === 1 ? ["a", "b"] : ["b", "a"];
        const byKey = [];
        for (const key of keys) byKey.push(await runtime.start(double, { n: key === "a" ? 1 : 2 }, { key }));
        const byOrder = [await runtime.start(double, { n: 3 }), await runtime.start(asks, {})];
        seen.push(
          [...byKey.toSorted((x, y) => x.executionId.localeCompare(y.executionId)), ...byOrder].map(
            (one) => one.executionId,
          ),
        );
        if (attempt < 3) throw new Error("again");
        return (await byOrder[1]!.result()).status;
      },
    });
    const { runtime } = open({ workflows: [parent, double, asks] });
    expect(await runtime.execute(parent, {})).toMatchObject({ result: "suspended" });
    expect(seen[1]).toEqual(seen[0]);
    expect(seen[2]).toEqual(seen[0]);
    expect(new Set(seen[0]).size).toBe(4);
    expect((await runtime.executions.list({ id: "child:" })).items).toHaveLength(4);
  });

  it("fails a step that starts a child again with another input or workflow", async () => {
    const parent = defineWorkflow({ id: "parent", input: v.object({ other: v.boolean() }) }).andThen({
      id: "s",
      retry: { attempts: 2 },
      async execute({ runtime, attempt, data }) {
        if (attempt === 1) {
          await runtime.start(double, { n: 1 });
          throw new Error("again");
        }
        if (data.other) await runtime.start("asks", { n: 1 });
        else await runtime.start(double, { n: 2 });
      },
    });
    const { runtime } = open({ workflows: [parent, double, asks] });
    const message = (what: string) => `This step has started child 1 with another ${what}: give each child a key`;
    expect(await runtime.execute(parent, { other: false })).toMatchObject({ status: "error", error: message("input") });
    expect(await runtime.execute(parent, { other: true })).toMatchObject({ error: message("workflow") });
  });

  it("resumes a child from a step, for the user of its execution", async () => {
    const echo = defineAgent({ id: "echo", instructions: "Repeat.", model: echoModel() });
    const who = defineWorkflow({ id: "who" }).andThen({
      id: "w",
      execute: ({ context, resumeData, suspend, resumedBy }) =>
        resumeData ? { id: context.get("userId"), user: context.get("user"), by: resumedBy } : suspend("Who?"),
    });
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "s",
      async execute({ runtime }) {
        const child = await runtime.start(who, {});
        if ((await child.result()).status === "suspended") await child.resume({ ok: true });
        const { items } = await runtime.executions.list();
        return {
          child: await child.result(),
          seen: items.map((one) => one.workflowId),
          said: await runtime.ask(echo, "hi"),
        };
      },
    });
    const auth = jwtAuth({ secret: "a secret for tests, at least 32 bytes" });
    const { runtime } = open({ workflows: [parent, who, double], agents: [echo], auth });
    await runtime.execute(double, { n: 1 }, { as: { id: "bob" } });
    const ada = { id: "ada", team: "x" };
    expect(await runtime.execute(parent, {}, { as: ada })).toMatchObject({
      result: {
        child: { status: "completed", result: { id: "ada", user: ada, by: { userId: "ada" } } },
        seen: ["who", "parent"],
        said: expect.stringContaining("hi"),
      },
    });
  });

  it("gives up the slot of a step that waits for a child, and admits the child before waiting executions", async () => {
    const gates = createGates();
    const order: string[] = [];
    const child = defineWorkflow({ id: "child" }).andThen({ id: "c", execute: () => void order.push("child") });
    const stranger = defineWorkflow({ id: "stranger" }).andThen({
      id: "x",
      async execute() {
        order.push("stranger");
        await gates.pass("stranger");
      },
    });
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "p",
      async execute({ runtime }) {
        await gates.pass("go");
        await runtime.execute(child, {});
      },
    });
    const server = open({ workflows: [parent, child, stranger], server: { limits: { runningExecutions: 1 } } });
    const { runtime } = server;
    const queued = async (): Promise<number> => {
      const metrics = await (await server.fetch(new Request("http://localhost/metrics"))).text();
      return Number(/^agentserve_executions_queued (\d+)$/m.exec(metrics)?.[1]);
    };
    const first = await runtime.start(parent, {});
    await gates.reached("go");
    const strangers = await Promise.all([runtime.start(stranger, {}), runtime.start(stranger, {})]);
    await until(async () => (await queued()) === 2, "two queued strangers");
    gates.open("go");
    await until(() => order.length > 0, "the execution after the parent");
    if (!chosenBackend.isDistributed) expect(order[0]).toBe("child");
    // On Restate, one stranger may take the slot before Restate calls the replica for the child (docs/scale-out.md).
    else if (order[0] === "stranger") await until(async () => (await queued()) === 2, "the queued child and stranger");
    gates.open("stranger");
    for (const one of [first, ...strangers]) expect(await one.result()).toMatchObject({ status: "completed" });
    expect(order.indexOf("child")).toBeLessThan(order.lastIndexOf("stranger"));
    expect(order).toHaveLength(3);
  });

  it("does not deadlock when many parents wait for children, and those for theirs, with 3 slots", async () => {
    const middle = defineWorkflow({ id: "middle", input: v.object({ n: v.number() }) }).andThen({
      id: "m",
      execute: async ({ runtime, data }) => runtime.execute(double, data),
    });
    const parent = defineWorkflow({ id: "parent", input: v.object({ n: v.number() }) }).andAll({
      id: "all",
      steps: [
        andThen({ id: "a", execute: async ({ runtime, data }) => runtime.execute(middle, data) }),
        andThen({ id: "b", execute: async ({ runtime, data }) => runtime.execute(double, data) }),
      ],
    });
    let most = 0;
    let now = 0;
    const counted = defineWorkflow({ id: "double", input: v.object({ n: v.number() }) }).andThen({
      id: "times",
      async execute({ data }) {
        most = Math.max(most, ++now);
        await new Promise(setImmediate);
        now--;
        return data.n * 2;
      },
    });
    const { runtime } = open({ workflows: [parent, middle, counted], server: { limits: { runningExecutions: 3 } } });
    const count = chosenBackend.isDistributed ? 30 : bySize(100, 300);
    const handles = await Promise.all(Array.from({ length: count }, (_, n) => runtime.start(parent, { n })));
    const outcomes = await Promise.all(handles.map((one) => one.result()));
    for (const [n, outcome] of outcomes.entries())
      expect(outcome).toMatchObject({ result: [{ result: { result: n * 2 } }, { result: n * 2 }] });
    expect(most).toBeLessThanOrEqual(3);
    expect((await runtime.executions.list({ status: "running" })).items).toEqual([]);
  });

  it("aborts a step that waits for a child by a cancel or its time limit; the child continues", async () => {
    const gates = createGates();
    const slow = defineWorkflow({ id: "slow" }).andThen({ id: "s", execute: () => gates.pass("slow") });
    const parent = defineWorkflow({ id: "parent", input: v.object({ key: v.string() }) }).andThen({
      id: "p",
      timeout: 300,
      execute: ({ runtime, data }) => runtime.execute(slow, {}, data),
    });
    const patient = defineWorkflow({ id: "patient" }).andThen({
      id: "p",
      execute: ({ runtime }) => runtime.execute(slow, {}),
    });
    const { runtime } = open({ workflows: [parent, patient, slow], server: { limits: { runningExecutions: 2 } } });
    expect(await runtime.execute(parent, { key: "k" })).toMatchObject({ error: "Step p timed out after 300 ms" });
    const cancelled = await runtime.start(patient, {});
    await until(async () => (await runtime.executions.list({ workflowId: "slow" })).items.length === 2, "the children");
    await cancelled.cancel();
    gates.open("slow");
    await until(
      async () => (await runtime.executions.list({ workflowId: "slow", status: "completed" })).items.length === 2,
      "the ends of the children",
    );
    expect(await runtime.execute(patient, {})).toMatchObject({ result: { status: "completed" } });
  });

  it("waits for several children with one slot, also for those with children and delays of their own", async () => {
    const leaf = defineWorkflow({ id: "leaf" }).andThen({ id: "l", execute: () => "leaf" });
    const middle = defineWorkflow({ id: "middle" }).andThen({
      id: "m",
      execute: ({ runtime }) => runtime.execute(leaf, {}),
    });
    const flaky = defineWorkflow({ id: "flaky" }).andThen({
      id: "f",
      retry: { attempts: 2, delay: 300 },
      execute: ({ attempt }) => (attempt === 1 ? Promise.reject(new Error("again")) : "flaky"),
    });
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "p",
      execute: ({ runtime }) =>
        Promise.all([runtime.execute(leaf, {}), runtime.execute(middle, {}), runtime.execute(flaky, {})]),
    });
    const limits = { runningExecutions: 1 };
    const { runtime } = open({ workflows: [parent, middle, flaky, leaf], server: { limits } });
    expect(await runtime.execute(parent, {})).toMatchObject({
      result: [{ result: "leaf" }, { result: { result: "leaf" } }, { result: "flaky" }],
    });
  });

  it("continues a step after a time-out and a delay while it has lent its slot", async () => {
    const gates = createGates();
    const slow = defineWorkflow({ id: "slow" }).andThen({ id: "s", execute: () => gates.pass("slow") });
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "p",
      timeout: 200,
      retry: { attempts: 2, delay: 400 },
      execute: ({ runtime, attempt }) => (attempt === 1 ? runtime.execute(slow, {}) : "at last"),
    });
    const limits = { runningExecutions: 2 };
    const { runtime } = open({ workflows: [parent, slow, double], server: { limits } });
    expect(await runtime.execute(parent, {})).toMatchObject({ result: "at last" });
    expect(await runtime.execute(double, { n: 2 })).toMatchObject({ result: 4 });
    gates.open("slow");
  });

  it("waits without a slot when a step starts more children than the queue takes", async () => {
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "p",
      async execute({ runtime }) {
        const handles = [];
        for (let n = 0; n < 12; n++) handles.push(await runtime.start(double, { n }));
        return (await Promise.all(handles.map((one) => one.result()))).length;
      },
    });
    const limits = { runningExecutions: 1, queuedExecutions: 3 };
    const { runtime } = open({ workflows: [parent, double], server: { limits } });
    expect(await runtime.execute(parent, {})).toMatchObject({ result: 12 });
  });

  it("asks an agent from a step whose tool executes a workflow, with one slot", async () => {
    const tool = defineTool({
      description: "Doubles",
      inputSchema: v.object({ n: v.number() }),
      execute: async ({ n }, { runtime }) => runtime.execute(double, { n }),
    });
    const script = () => scriptedModel([{ toolCalls: [{ toolName: "tool", input: { n: 2 } }] }, "Done"]);
    const ask = defineAgent({ id: "ask", instructions: "", model: script(), tools: { tool }, maxSteps: 2 });
    const also = defineAgent({ id: "also", instructions: "", model: script(), tools: { tool }, maxSteps: 2 });
    const parent = defineWorkflow({ id: "parent" })
      .andThen({ id: "p", execute: ({ runtime }) => runtime.ask(ask, "Double 2") })
      .andAgent({ id: "a", agent: also, prompt: "Double 2" });
    const limits = { runningExecutions: 1 };
    const { runtime } = open({ workflows: [parent, double], agents: [ask, also], server: { limits } });
    expect(await runtime.execute(parent, {})).toMatchObject({ result: "Done" });
    expect((await runtime.executions.list({ workflowId: "double", status: "completed" })).items).toHaveLength(2);
  });

  it("keeps keys and numbers of children apart, and sends an event once when it runs again", async () => {
    const waits = defineWorkflow({ id: "waits" })
      .andWaitFor({ id: "w", event: "go" })
      .andWaitFor({ id: "x", event: "go" });
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "p",
      retry: { attempts: 2 },
      async execute({ runtime, attempt }) {
        const both = [await runtime.start(double, { n: 1 }), await runtime.start(double, { n: 1 }, { key: "1" })];
        const { id } = await runtime.send({ name: "go", data: attempt === 1 ? "same" : "same" });
        if (attempt === 1) throw new Error("again");
        return { ids: both.map((one) => one.executionId), id };
      },
    });
    const { runtime } = open({ workflows: [parent, double, waits] });
    const waiter = await runtime.start(waits, {});
    const outcome = await runtime.execute(parent, {});
    const { ids, id } = (outcome as { result: { ids: string[]; id: string } }).result;
    expect([new Set(ids).size, id]).toEqual([2, expect.stringMatching(/^event:[\w-]{22}$/)]);
    await until(async () => (await waiter.state()).suspension?.stepId === "x", "the second wait");
    expect((await waiter.state()).status).toBe("suspended");
  });

  it("repeats a step after a restart that waited for a child at the shutdown", async () => {
    const gates = createGates();
    const path = `${createProject({})}/data.db`;
    const asked = defineWorkflow({ id: "asked" }).andThen({
      id: "a",
      execute: ({ resumeData, suspend }) => resumeData ?? suspend("Well?"),
    });
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "p",
      async execute({ runtime }) {
        const child = await runtime.start(asked, {}, { key: "asked" });
        const waiting = await child.result();
        await gates.pass("closing");
        await runtime.send({ name: "go" });
        if (waiting.status === "suspended") await child.resume({ ok: true });
        return runtime.execute(double, { n: 4 });
      },
    });
    const config = {
      workflows: [parent, asked, double],
      backend: embedded({ path }),
      server: { limits: { drainMs: 200 } },
    };
    const first = open(config);
    const { executionId } = await first.runtime.start(parent, {});
    await gates.reached("closing");
    const closing = first.close();
    gates.open("closing");
    await closing;
    const { runtime } = open(config);
    const handle = await runtime.executions.get(executionId);
    expect(await handle.result()).toMatchObject({ status: "completed", result: { result: 8 } });
  });

  it("cancels the children with cancelWith: parent, and theirs, and no others", async () => {
    const gates = createGates();
    const leaf = defineWorkflow({ id: "leaf" }).andThen({ id: "s", execute: () => gates.pass("never") });
    const middle = defineWorkflow({ id: "middle" }).andThen({
      id: "m",
      execute: ({ runtime }) => runtime.execute(leaf, {}, { cancelWith: "parent" }),
    });
    const parent = defineWorkflow({ id: "parent" }).andThen({
      id: "p",
      async execute({ runtime }) {
        await runtime.start(leaf, {}, { key: "free" });
        await runtime.start(asks, {}, { key: "asks", cancelWith: "parent" });
        await runtime.execute(middle, {}, { key: "bound", cancelWith: "parent" });
      },
    });
    const { runtime } = open({ workflows: [parent, middle, leaf, asks] });
    const handle = await runtime.start(parent, {});
    const { list } = runtime.executions;
    await until(async () => (await list({ workflowId: "leaf" })).items.length === 2, "the children");
    await handle.cancel("no longer needed");
    const statuses = async () =>
      (await list({ id: "child:" })).items
        .map(({ workflowId, status, cancellation }) => `${workflowId} ${cancellation?.reason ?? status}`)
        .toSorted();
    const expected = ["asks no longer needed", "leaf no longer needed", "leaf running", "middle no longer needed"];
    await until(
      async () => JSON.stringify(await statuses()) === JSON.stringify(expected),
      () => "the cancels",
    );
    gates.open("never");
  });
});
