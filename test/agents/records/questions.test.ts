import { defineTool, type StepContext } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { eventually } from "../../harness/waiting.ts";
import { calls, createTurn, interrupt, released } from "./turns.ts";

/** Counts its runs by key. */
function createSend() {
  const keys: string[] = [];
  const execute = (_: unknown, { idempotencyKey }: { idempotencyKey: string }) => void keys.push(idempotencyKey);
  return { keys, send: defineTool({ description: "Sends", inputSchema: v.object({}), execute }) };
}
const promptOf = ({ prompt }: { prompt: readonly { role: string; content: unknown }[] }): string =>
  JSON.stringify(prompt.find(({ role }) => role === "user")?.content);

it("asks an agent nothing again that was answered before a restart, in whichever order the step asks", async () => {
  const live = createTurn();
  const { send, keys } = createSend();
  let ends = 0;
  const agent = { hooks: { onEnd: () => void ends++ } };
  const ask = (prompts: readonly string[]) => async (step: StepContext) => {
    const answers: Record<string, string> = {};
    for (const prompt of prompts) answers[prompt] = await step.runtime.ask("a", prompt);
    return answers;
  };
  const first = await interrupt(live, {
    script: [calls(["send", "c1"]), "one", calls(["send", "c1"]), calls(["hold", "c2"])],
    tools: { send },
    agent,
    execute: ask(["1", "2", "3"]),
  });
  expect(first.model.calls.map(promptOf)).toEqual(["1", "1", "2", "2"].map((text) => expect.stringContaining(text)));
  const second = await live({
    script: ["two", "three"],
    tools: { send, hold: released },
    agent,
    execute: ask(["2", "3", "1"]),
  });
  expect(await second.ended()).toMatchObject({ status: "completed", result: { 1: "one", 2: "two", 3: "three" } });
  expect(second.model.calls).toHaveLength(2);
  expect(ends).toBe(3);
  // Two questions may have the same id of a tool call.
  expect(keys).toHaveLength(2);
  expect(new Set(keys).size).toBe(2);
  for (const key of keys) expect(key).toMatch(/^w\/ask#1\/.*\/c1$/);
});

it("numbers questions to an agent with the same content, and distinguishes those with other options", async () => {
  const live = createTurn();
  const schema = v.object({
    n: v.pipe(
      v.number(),
      v.transform((n) => `number ${n}`),
    ),
  });
  const execute = async ({ runtime }: StepContext) => [
    await runtime.ask("a", "same"),
    await runtime.ask("a", "same"),
    await runtime.ask("a", "same", { context: { tone: "kind" } }),
    await runtime.ask("a", "same", { schema }),
    await runtime.ask("a", [{ role: "user", content: "hold" }]),
  ];
  const script = ["first", "second", "kind", '{ "n": 4 }', calls(["hold", "c1"])];
  await interrupt(live, { script, execute });
  const second = await live({ script: ["last"], tools: { hold: released }, execute });
  const result = ["first", "second", "kind", { n: "number 4" }, "last"];
  expect(await second.ended()).toMatchObject({ status: "completed", result });
});

it("fails a question to an agent that is not awaited when its step ends, and tells the author", async () => {
  const live = createTurn();
  const asked = Promise.withResolvers<AbortSignal>();
  const failed = Promise.withResolvers<unknown>();
  const life = await live({
    script: [
      ({ abortSignal }) => {
        asked.resolve(abortSignal!);
        return new Promise<never>(() => {});
      },
    ],
    async execute({ runtime }) {
      void runtime.ask("a", "forgotten").catch(failed.resolve);
      void runtime.ask("unknown", "nothing ends the process");
      await asked.promise;
      return "over";
    },
  });
  await life.begin();
  expect(await life.ended()).toMatchObject({ status: "completed", result: "over" });
  const message = "The step ended before agent a had answered: await runtime.ask()";
  const cause = { cause: { message: "Step ask has ended" } }; // not the time limit of the model
  expect(await failed.promise).toMatchObject({ name: "AgentError", message, cause });
  expect((await asked.promise).aborted).toBe(true);
  await eventually(() => expect(life.server.logs).toContainEqual(expect.objectContaining({ level: "warn", message })));
});

it("uses no record of a question in an attempt that has failed", async () => {
  const live = createTurn();
  const { send, keys } = createSend();
  const step = { retry: { attempts: 2, delay: 0 } };
  let attempts = 0;
  const execute = async ({ runtime, attempt }: StepContext) => {
    const answer = await runtime.ask("a", "go");
    attempts++;
    if (attempt === 1) throw new Error("no");
    return answer;
  };
  const script = [calls(["send", "c1"]), "first", calls(["send", "c1"]), calls(["hold", "c2"])];
  await interrupt(live, { script, tools: { send }, step, execute });
  const second = await live({ script: ["second"], tools: { send, hold: released }, step, execute });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "second" });
  expect(attempts).toBe(2);
  expect(keys).toHaveLength(2);
  expect(new Set(keys).size).toBe(2);
});

it("stores the turn of a conversation once, though the step that asks is repeated", async () => {
  const live = createTurn();
  const execute = async ({ runtime }: StepContext) => [
    await runtime.ask("a", "first", { conversationId: "c" }),
    await runtime.ask("a", "second", { conversationId: "c" }),
  ];
  await interrupt(live, { script: ["one", calls(["hold", "c1"])], execute });
  const second = await live({ script: ["two"], tools: { hold: released }, execute });
  expect(await second.ended()).toMatchObject({ status: "completed", result: ["one", "two"] });
  const rows = await second.server.conversations.read({ agentId: "a", conversationId: "c" }, { limit: 10 });
  const texts = rows.map(({ ui }) => /"text":"(\w+)"/.exec(ui!)?.[1]);
  expect(texts).toEqual(["first", "one", "second", "two"]);
});

it("takes a question over limits.stepValueBytes, and bounds all questions of a step by limits.executionBytes", async () => {
  const live = createTurn();
  const limits = { stepValueBytes: 5_000, executionBytes: 40_000 };
  const life = await live({
    script: Array.from({ length: 100 }, () => "x".repeat(4_000)),
    limits,
    async execute({ runtime }) {
      for (let n = 0; n < 100; n++) await runtime.ask("a", `${n} ${"x".repeat(10_000)}`);
    },
  });
  await life.begin();
  const message = "error: The questions of the step take more than 40000 bytes (limits.executionBytes)";
  expect(await life.failure()).toBe(message);
  // Each one is recorded with its model call and its answer.
  expect(life.model.calls.length).toBeGreaterThan(3);
  expect(life.model.calls.length).toBeLessThan(6);
});
