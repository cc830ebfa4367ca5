import { describe, expect, it } from "vitest";
import { open, say, shown, user } from "./chat-server.ts";

describe("an edited message", () => {
  it("takes the place of the one with its id, and of all that followed", async () => {
    const { chat, prompts } = await open(["Hello Ada.", "Two.", "Hello Bob.", "Bob."]);
    await chat.sendMessage({ text: "I am Ada" });
    await chat.sendMessage({ text: "Second" });
    await chat.sendMessage({ text: "I am Bob", messageId: chat.messages[0]!.id });
    expect(shown(chat)).toEqual(["user: I am Bob", "assistant: Hello Bob."]);
    await chat.sendMessage({ text: "Who am I?" });
    expect(prompts().slice(2)).toEqual([
      ["user: I am Bob"],
      ["user: I am Bob", "assistant: Hello Bob.", "user: Who am I?"],
    ]);
  });

  it("changes nothing if its turn fails", async () => {
    const { chat, server, prompts } = await open(["Hello Ada.", new Error("no"), "Ada."]);
    await chat.sendMessage({ text: "I am Ada" });
    await chat.sendMessage({ text: "I am Bob", messageId: chat.messages[0]!.id });
    expect(chat.status).toBe("error");
    await say(server, chat.id, "Who am I?");
    expect(prompts()[2]).toEqual(["user: I am Ada", "assistant: Hello Ada.", "user: Who am I?"]);
  });

  it("is stored once when a client sends the same message again", async () => {
    const { server, prompts } = await open(["Hello.", "Hello again.", "Third."]);
    const messages = [user("Hi", "u1")];
    for (let time = 0; time < 2; time++) {
      await server.post("/agents/helper/chat", { id: "c1", messages, trigger: "submit-message" });
    }
    await say(server, "c1", "Go on");
    expect(prompts().slice(1)).toEqual([["user: Hi"], ["user: Hi", "assistant: Hello again.", "user: Go on"]]);
  });
});
