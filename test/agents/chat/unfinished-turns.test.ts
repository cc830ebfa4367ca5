import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { DefineAgentOptions } from "agentserve";
import type { ScriptedStep } from "agentserve/models";
import { DefaultChatTransport } from "ai";
import { describe, expect, it } from "vitest";
import { createGates } from "../../harness/gates.ts";
import { abortsOnLeave, callWeather, locate, open, say, shown, slowly, user, weather } from "./chat-server.ts";

/** The prompt after turns without an answer. */
const afterUnfinished = (...questions: string[]): string[] => [
  "user: I am Ada",
  "assistant: Hello Ada.",
  ...questions.map((question) => `user: ${question}`),
  "user: Who am I?",
];

describe("a stored conversation", () => {
  it("keeps only the question of a turn that fails after a tool has run", async () => {
    const script: ScriptedStep[] = ["Hello Ada.", callWeather("Rome"), new Error("after the tool"), "You are Ada."];
    const { server, prompts } = await open(script, { tools: { weather } });
    await say(server, "c1", "I am Ada");
    expect((await say(server, "c1", "Weather in Rome?")).events.at(-1).type).toBe("error");
    await say(server, "c1", "Who am I?");
    expect(prompts().at(-1)).toEqual(afterUnfinished("Weather in Rome?"));
  });

  it("keeps only the question of a turn that its client ends by leaving, even if the model does not listen", async () => {
    const gates = createGates();
    const script = ["Hello Ada.", () => slowly(["Never ", "stored"], (word) => gates.pass(word)), "You are Ada."];
    const { server, api, prompts } = await open(script);
    await say(server, "c1", "I am Ada");
    const leaving = new AbortController();
    const stream = await new DefaultChatTransport({ api, body: abortsOnLeave }).sendMessages({
      chatId: "c1",
      messages: [user("I leave")],
      trigger: "submit-message",
      messageId: undefined,
      abortSignal: leaving.signal,
    });
    await gates.reached("Never ");
    leaving.abort();
    await expect(stream.pipeTo(new WritableStream())).rejects.toThrow("abort");
    // Waits for the turn before, which must end although its model never continues.
    await say(server, "c1", "Who am I?");
    for (const word of ["Never ", "stored"]) gates.open(word);
    expect(prompts().at(-1)).toEqual(afterUnfinished("I leave"));
  });

  it("keeps only the question of a turn that its client ends after the last word, before it is told of the end", async () => {
    const ended = Promise.withResolvers<void>();
    const hooks: DefineAgentOptions["hooks"] = {
      async onEnd({ text, context: { signal } }) {
        if (text !== "Not stored.") return;
        ended.resolve();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
    };
    const script = ["Hello Ada.", "Not stored.", "You are Ada."];
    const { server, chat, prompts } = await open(script, { hooks, onDisconnect: "abort" });
    await chat.sendMessage({ text: "I am Ada" });
    const sent = chat.sendMessage({ text: "I leave" });
    await ended.promise;
    await chat.stop();
    await sent;
    await say(server, chat.id, "Who am I?");
    expect(prompts().at(-1)).toEqual(afterUnfinished("I leave"));
  });

  it.each<[string, LanguageModelV4StreamPart[]]>([
    ["before any part of it", [{ type: "stream-start", warnings: [] }]],
    ["before its first word", [{ type: "text-start", id: "t" }]],
    ["in its first tool call", [{ type: "tool-input-start", id: "l1", toolName: "locate" }]],
  ])("continues a chat after an answer that broke off %s", async (_, parts) => {
    const breaks: LanguageModelV4StreamPart[] = [...parts, { type: "error", error: "mid-stream" }];
    const { chat, prompts } = await open(["Hello Ada.", breaks, "You are Ada."], { tools: { locate } });
    await chat.sendMessage({ text: "I am Ada" });
    await chat.sendMessage({ text: "It breaks" });
    expect(chat.status).toBe("error");
    await chat.sendMessage({ text: "Who am I?" });
    expect([chat.status, chat.error?.message, shown(chat).at(-1)]).toEqual([
      "ready",
      undefined,
      "assistant: You are Ada.",
    ]);
    expect(prompts()[2]).toEqual(afterUnfinished("It breaks"));
  });
});
