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

  it("a failing server tool is shown once as wrong, if the model calls it with a wrong input", async () => {
    const wrong = { toolCalls: [{ toolName: "weather", input: { town: "Rome" } }] };
    const { server } = await open([wrong, "I do not know."], { tools: { weather } });
    const body = { input: [{ id: "m", role: "user", parts: [{ type: "text", text: "Weather?" }] }] };
    const { text } = await server.post("/agents/helper/chat", body);
    const types = [...text.matchAll(/"type":"(tool-[a-z-]+)"/g)].map(([, type]) => type);
    expect(types.filter((type) => type !== "tool-input-start" && type !== "tool-input-delta")).toEqual([
      "tool-input-error",
    ]);
  });
});
