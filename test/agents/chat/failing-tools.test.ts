import { defineTool } from "agentserve";
import { describe, expect, it } from "vitest";
import { callWeather, open, shown, weather } from "./chat-server.ts";

describe("a tool of the server's that fails", () => {
  it("tells the model and the client why, and the model continues", async () => {
    const broken = defineTool({
      ...weather,
      execute() {
        throw new Error("no station");
      },
    });
    const { chat, prompts } = await open([callWeather("Rome"), "I do not know."], { tools: { weather: broken } });
    await chat.sendMessage({ text: "Weather in Rome?" });
    expect(shown(chat)[1]).toBe('assistant: [weather {"city":"Rome"} → no station] I do not know.');
    expect(prompts()[1]!.at(-1)).toContain("no station");
  });
});
