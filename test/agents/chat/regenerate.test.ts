import { describe, expect, it } from "vitest";
import { callWeather, open, say, shown, slowly, weather } from "./chat-server.ts";

describe("an answer asked for again", () => {
  it("takes the place of the old one, and the model is not told of that", async () => {
    const { chat, prompts } = await open(["Old.", "New.", "Third."]);
    await chat.sendMessage({ text: "Hi" });
    await chat.regenerate({ messageId: chat.messages[1]!.id });
    expect(shown(chat)).toEqual(["user: Hi", "assistant: New."]);
    await chat.sendMessage({ text: "Go on" });
    expect(prompts().slice(1)).toEqual([["user: Hi"], ["user: Hi", "assistant: New.", "user: Go on"]]);
  });

  it("drops what followed it, too, and the whole of an answer with tools", async () => {
    const script = [callWeather("Rome"), "Clear over Rome.", "Two.", "New.", "Third."];
    const { chat, prompts } = await open(script, { tools: { weather } });
    await chat.sendMessage({ text: "Weather in Rome?" });
    await chat.sendMessage({ text: "Second" });
    await chat.regenerate({ messageId: chat.messages[1]!.id });
    await chat.sendMessage({ text: "Third" });
    const asked = ["user: Weather in Rome?"];
    expect(prompts().slice(3)).toEqual([asked, [...asked, "assistant: New.", "user: Third"]]);
  });

  it("is the question's, when the client names the user's message", async () => {
    const { chat, prompts } = await open(["Old.", "Two.", "New.", "Third."]);
    await chat.sendMessage({ text: "Hi" });
    await chat.sendMessage({ text: "Second" });
    await chat.regenerate({ messageId: chat.messages[0]!.id });
    expect(shown(chat)).toEqual(["user: Hi", "assistant: New."]);
    await chat.sendMessage({ text: "Go on" });
    expect(prompts().slice(2)).toEqual([["user: Hi"], ["user: Hi", "assistant: New.", "user: Go on"]]);
  });

  it("drops the old one by its id alone, for clients whose own messages have none", async () => {
    const { server, prompts } = await open(["Old.", "New.", "Third."]);
    const { events } = await say(server, "c1", "Hi");
    const { messageId } = events[0];
    const input = [{ role: "user", content: "Hi" }];
    const options = { conversationId: "c1" };
    await server.post("/agents/helper/chat", { input, options, trigger: "regenerate-message", messageId });
    await say(server, "c1", "Go on");
    for (const prompt of prompts().slice(1)) expect(prompt).not.toContain("assistant: Old.");
    expect(prompts()[2]!.slice(-2)).toEqual(["assistant: New.", "user: Go on"]);
  });

  it("is the turn's, when the client asks again for one that broke off and is not stored", async () => {
    const throws = async () => {
      throw new Error("mid-stream");
    };
    const { chat, prompts } = await open(["Hello Ada.", () => slowly(["You ", "are"], throws), "Ada.", "Bye."]);
    await chat.sendMessage({ text: "I am Ada" });
    await chat.sendMessage({ text: "Who am I?" });
    await chat.regenerate({ messageId: chat.messages[3]!.id });
    await chat.sendMessage({ text: "Thanks" });
    const before = ["user: I am Ada", "assistant: Hello Ada.", "user: Who am I?"];
    expect(prompts().slice(2)).toEqual([before, [...before, "assistant: Ada.", "user: Thanks"]]);
  });

  it("leaves the old one in place until it is complete", async () => {
    const throws = async () => {
      throw new Error("mid-stream");
    };
    const script = ["Old.", new Error("at once"), () => slowly(["Ne", "w."], throws), "Third."];
    const { chat, server, prompts } = await open(script);
    await chat.sendMessage({ text: "Hi" });
    const { id } = chat.messages[1]!;
    await chat.regenerate({ messageId: id });
    expect([chat.status, chat.error!.message]).toEqual(["error", '{"success":false,"error":"Model call failed"}']);
    await chat.regenerate();
    expect([chat.status, chat.error!.message]).toEqual(["error", "Model call failed"]);
    await say(server, chat.id, "Go on");
    expect(prompts().slice(1)).toEqual([["user: Hi"], ["user: Hi"], ["user: Hi", "assistant: Old.", "user: Go on"]]);
  });
});
