import { describe, expect, it } from "vitest";
import { open, say, textOf, user } from "./chat-server.ts";

describe("the body { input, options } of POST /agents/:id/chat", () => {
  it("holds only what is new: the rest is remembered by conversationId", async () => {
    const { server, prompts } = await open(["Hello Ada.", "You are Ada.", "Yes."]);
    expect(textOf(await say(server, "c1", "I am Ada"))).toBe("Hello Ada.");
    const { id: _, ...message } = user("Who am I?");
    const input = [message];
    const answer = await server.post("/agents/helper/chat", { input, options: { conversationId: "c1" } });
    expect(textOf(answer)).toBe("You are Ada.");
    const before = ["user: I am Ada", "assistant: Hello Ada.", "user: Who am I?"];
    expect(prompts()[1]).toEqual(before);
    // One memory, whichever endpoint asks.
    await server.post("/agents/helper/text", { input: "Sure?", options: { conversationId: "c1" } });
    expect(prompts()[2]).toEqual([...before, "assistant: You are Ada.", "user: Sure?"]);
  });

  it("conversationId and the id that useChat sends name the same conversation", async () => {
    const { server, chat, prompts } = await open(["Hello Ada.", "You are Ada."]);
    await chat.sendMessage({ text: "I am Ada" });
    await say(server, chat.id, "Who am I?");
    expect(prompts()[1]).toEqual(["user: I am Ada", "assistant: Hello Ada.", "user: Who am I?"]);
  });

  it("without a conversation the client's messages are all there is", async () => {
    const { server, prompts } = await open(["One.", "Two."]);
    const input = [user("I am Ada"), { role: "assistant", content: "Hello Ada." }, user("Who am I?")];
    await server.post("/agents/helper/chat", { input });
    await server.post("/agents/helper/chat", { input: [user("Again")] });
    expect(prompts()).toEqual([["user: I am Ada", "assistant: Hello Ada.", "user: Who am I?"], ["user: Again"]]);
  });
});
