import { expect, it } from "vitest";
import { calls, createTurn, interrupt, released } from "./turns.ts";

it("continues a turn with the instructions and the prompt with which it began, over several restarts", async () => {
  const live = createTurn();
  let made = 0;
  const agent = { instructions: () => `instructions ${++made}` };
  let asked = 0;
  const step = { prompt: () => `prompt ${++asked}` };
  const first = await interrupt(live, { script: [calls(["hold", "c1"])], agent, step });
  const reached = Promise.withResolvers<void>();
  const more = { ...released, execute: () => (reached.resolve(), new Promise(() => {})) };
  const second = await live({ script: [calls(["more", "c2"])], tools: { hold: released, more }, agent, step });
  await reached.promise;
  await second.close();
  const third = await live({
    script: ["done"],
    tools: { hold: released, more: released },
    agent: { instructions: "instructions of the last life" },
    step: { prompt: "prompt of the last life" },
  });
  expect(await third.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(made).toBe(1);
  const lives = [first, second, third].map(({ model }) => model.calls);
  expect(lives.map(({ length }) => length)).toEqual([1, 1, 1]);
  for (const [call] of lives)
    expect(call!.prompt.slice(0, 2)).toMatchObject([
      { role: "system", content: "instructions 1" },
      { role: "user", content: [{ type: "text", text: "prompt 1" }] },
    ]);
  for (const [call] of lives) expect(call!.prompt.slice(0, 2)).toEqual(lives[0]![0]!.prompt);
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
