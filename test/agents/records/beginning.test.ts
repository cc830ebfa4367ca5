import { defineAgent } from "agentserve";
import { expect, it } from "vitest";
import { calls, createTurn, interrupt, released } from "./turns.ts";

type Instructions = NonNullable<Parameters<typeof defineAgent>[0]["instructions"]>;

it("continues a turn with the instructions and the prompt with which it began", async () => {
  const live = createTurn();
  let made = 0;
  const instructions: Instructions = () => `instructions ${++made}`;
  let asked = 0;
  const step = { prompt: () => `prompt ${++asked}` };
  const script = [calls(["hold", "c1"])];
  const first = await interrupt(live, { script, agent: { instructions }, step });
  const second = await live({ script: ["done"], tools: { hold: released }, agent: { instructions }, step });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(made).toBe(1);
  expect(first.model.calls).toHaveLength(1);
  expect(second.model.calls).toHaveLength(1);
  const [system, user] = second.model.calls[0]!.prompt;
  expect(system).toMatchObject({ role: "system", content: "instructions 1" });
  expect(user).toMatchObject({ role: "user", content: [{ type: "text", text: "prompt 1" }] });
  expect(second.model.calls[0]!.prompt.slice(0, 2)).toEqual(first.model.calls[0]!.prompt);
});

it("continues a turn with its first instructions and prompt over several restarts", async () => {
  const live = createTurn();
  const agent = (life: number) => ({ instructions: `life ${life}` });
  const step = (life: number) => ({ prompt: `prompt of ${life}` });
  await interrupt(live, { script: [calls(["hold", "c1"])], agent: agent(1), step: step(1) });
  const reached = Promise.withResolvers<void>();
  const more = { ...released, execute: () => (reached.resolve(), new Promise(() => {})) };
  const second = await live({
    script: [calls(["more", "c2"])],
    tools: { hold: released, more },
    agent: agent(2),
    step: step(2),
  });
  await reached.promise;
  await second.close();
  const third = await live({
    script: ["done"],
    tools: { hold: released, more: released },
    agent: agent(3),
    step: step(3),
  });
  expect(await third.ended()).toMatchObject({ status: "completed", result: "done" });
  const [system, user] = third.model.calls[0]!.prompt;
  expect([system!.content, user!.content]).toEqual(["life 1", [{ type: "text", text: "prompt of 1" }]]);
});

it("begins a turn anew if it ended before its first model call was recorded", async () => {
  const live = createTurn();
  const asked = Promise.withResolvers<void>();
  let made = 0;
  const agent = { instructions: () => `instructions ${++made}` };
  const first = await live({
    script: [
      () => {
        asked.resolve();
        return new Promise<never>(() => {});
      },
    ],
    agent,
  });
  await first.begin();
  await asked.promise;
  await first.close();
  const second = await live({ script: ["done"], agent });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(second.model.calls[0]!.prompt[0]).toMatchObject({ role: "system", content: "instructions 2" });
});
