import { describe, expect, it } from "vitest";
import { open, say, slowly } from "./chat-server.ts";

describe("an answer asked for again", () => {
  it("a regenerated answer is the turn's, when the client asks again for one that broke off and is not stored", async () => {
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

  it("a regenerated answer leaves the old one in place until it is complete", async () => {
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
