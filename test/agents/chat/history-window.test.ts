import { describe, expect, it } from "vitest";
import { callWeather, open, romeInModel, say, user, weather } from "./chat-server.ts";

describe("a stored conversation", () => {
  it("gives the model at most its last 40 messages, from a user's on, after the instructions", async () => {
    const script = Array.from({ length: 60 }, (_, turn) => [callWeather("Rome"), `answer ${turn}`]).flat();
    const { server, prompts } = await open(script, { tools: { weather } });
    for (let turn = 0; turn < 60; turn++) await say(server, "c1", `question ${turn}`);
    const given = prompts().filter((_, call) => call % 2 === 0);
    expect(given).toHaveLength(60);
    for (const [turn, prompt] of given.entries()) {
      expect(prompt.length).toBeLessThanOrEqual(40);
      expect(prompt[0]).toMatch(/^user: /);
      expect(prompt.at(-1)).toBe(`user: question ${turn}`);
    }
    // Four messages a turn: nine whole turns and the new question are 37; a tenth would not fit.
    const turns = [50, 51, 52, 53, 54, 55, 56, 57, 58];
    const whole = turns.flatMap((turn) => [
      `user: question ${turn}`,
      ...romeInModel.slice(0, 2),
      `assistant: answer ${turn}`,
    ]);
    expect(given.at(-1)).toEqual([...whole, "user: question 59"]);
  });

  it("gives the model no fewer than fit: 39 where each turn has two", async () => {
    const { server, prompts } = await open(Array.from({ length: 60 }, () => "ok"));
    for (let turn = 0; turn < 60; turn++) await say(server, "c1", `question ${turn}`);
    expect(prompts().at(-1)).toHaveLength(39);
    expect(prompts().at(-1)![0]).toBe("user: question 40");
  });

  it("gives the model at most 40 of the messages that a client brings along", async () => {
    const { chat, prompts } = await open(["Hello."]);
    chat.messages = Array.from({ length: 60 }, (_, turn) => [
      user(`question ${turn}`),
      { ...user(`answer ${turn}`), role: "assistant" as const },
    ]).flat();
    await chat.sendMessage({ text: "Hi" });
    expect(prompts()[0]).toHaveLength(39);
    expect(prompts()[0]![0]).toBe("user: question 41");
  });
});
