import { tool } from "ai";
import { defineTool } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { z } from "zod";
import { calls, createTurn, interrupt, released, resultsOf } from "./turns.ts";

const anything = v.object({});

it("returns the recorded error of a tool, without running the tool again", async () => {
  const live = createTurn();
  let ran = 0;
  const fails = defineTool({
    description: "Fails",
    inputSchema: anything,
    execute() {
      throw new RangeError(`no ${++ran}`);
    },
  });
  await interrupt(live, { script: [calls(["fails", "c1"]), calls(["hold", "c2"])], tools: { fails } });
  const second = await live({ script: ["done"], tools: { fails, hold: released } });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(ran).toBe(1);
  expect(resultsOf(second.model)).toEqual({
    c1: { type: "error-text", value: "Tool fails failed" },
    c2: { type: "text", value: "released" },
  });
});

it("distinguishes two tool calls with the same id of a provider, by result and by idempotency key", async () => {
  const live = createTurn();
  const keys: string[] = [];
  const count = defineTool({
    description: "Counts",
    inputSchema: v.object({ n: v.number() }),
    execute: ({ n }, { idempotencyKey }) => {
      keys.push(idempotencyKey);
      return n;
    },
  });
  const script = [1, 2, 3].map((n) => calls(["count", "same", { n }]));
  await interrupt(live, { script: [...script, calls(["hold", "same"])], tools: { count } });
  const second = await live({ script: ["done"], tools: { count, hold: released } });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(keys).toHaveLength(3);
  expect(new Set(keys).size).toBe(3);
  const shown = second.model.calls[0]!.prompt.flatMap(({ role, content }) => (role === "tool" ? content : []));
  expect(shown.map((part) => part.type === "tool-result" && part.output)).toEqual([
    { type: "json", value: 1 },
    { type: "json", value: 2 },
    { type: "json", value: 3 },
    { type: "text", value: "released" },
  ]);
});

it("runs a tool that was in flight again with the same idempotency key", async () => {
  const live = createTurn();
  const keys: string[] = [];
  const reached = Promise.withResolvers<void>();
  const slow = (result: Promise<string>) =>
    defineTool({
      description: "Is slow",
      inputSchema: anything,
      execute(_, { idempotencyKey }) {
        keys.push(idempotencyKey);
        reached.resolve();
        return result;
      },
    });
  const first = await live({ script: [calls(["slow", "c1"])], tools: { slow: slow(new Promise<never>(() => {})) } });
  await first.begin();
  await reached.promise;
  await first.close();
  const second = await live({ script: ["done"], tools: { slow: slow(Promise.resolve("late")) } });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(keys).toEqual([keys[0], keys[0]]);
  expect(keys[0]).toMatch(/^w\/.*\/c1$/);
});

it("runs only that one of parallel tools again that was in flight", async () => {
  const live = createTurn();
  const ran: string[] = [];
  const quick = defineTool({
    description: "Is quick",
    inputSchema: v.object({ n: v.number() }),
    execute: ({ n }) => {
      ran.push(`quick ${n}`);
      return { n };
    },
  });
  const ended = Promise.withResolvers<void>();
  let ends = 0;
  const hooks = { onToolEnd: () => void (++ends === 2 && ended.resolve()) };
  const first = await live({
    script: [calls(["quick", "c1", { n: 1 }], ["hold", "c2"], ["quick", "c3", { n: 3 }])],
    tools: { quick, hold: { ...released, execute: () => new Promise(() => {}) } },
    agent: { hooks },
  });
  await first.begin();
  await ended.promise; // a tool has ended when it is recorded
  await first.close();
  const second = await live({ script: ["done"], tools: { quick, hold: released } });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(ran.toSorted()).toEqual(["quick 1", "quick 3"]);
  expect(resultsOf(second.model)).toEqual({
    c1: { type: "json", value: { n: 1 } },
    c2: { type: "text", value: "released" },
    c3: { type: "json", value: { n: 3 } },
  });
});

it("records the last result of a tool that is an async generator, and its error", async () => {
  const live = createTurn();
  const ran: string[] = [];
  const grows = tool({
    description: "Grows",
    inputSchema: z.object({ breaks: z.boolean() }),
    async *execute({ breaks }) {
      ran.push(`breaks: ${breaks}`);
      yield { part: 1 };
      if (breaks) throw new Error("broken");
      yield { part: 2 };
    },
  });
  await interrupt(live, {
    script: [
      calls(["grows", "c1", { breaks: false }]),
      calls(["grows", "c2", { breaks: true }]),
      calls(["hold", "c3"]),
    ],
    tools: { grows },
  });
  const second = await live({ script: ["done"], tools: { grows, hold: released } });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(ran).toEqual(["breaks: false", "breaks: true"]);
  expect(resultsOf(second.model)).toEqual({
    c1: { type: "json", value: { part: 2 } },
    c2: { type: "error-text", value: "Tool grows failed" },
    c3: { type: "text", value: "released" },
  });
});
