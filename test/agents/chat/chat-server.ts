import type { LanguageModelV4Prompt, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { Chat } from "@ai-sdk/react";
import { defineAgent, defineTool, type DefineAgentOptions } from "agentserve";
import { scriptedModel, type ScriptedModel, type ScriptedStep } from "agentserve/models";
import { DefaultChatTransport, tool, type UIMessage } from "ai";
import * as v from "valibot";
import { expect } from "vitest";
import { z } from "zod";
import { finishPart } from "../../harness/finish-part.ts";
import { toLine } from "../../harness/react.ts";
import { startTestServer, type Target, type TestServer } from "../../harness/server.ts";

export const instructions = "Never say the word quetzalcoatl.";
export const sockets = ["dev", "start"] as const;

/** The body of a client that ends its turn when it leaves. */
export const abortsOnLeave = { options: { onDisconnect: "abort" } };

export interface Opened {
  readonly server: TestServer;
  readonly model: ScriptedModel;
  /** The URL of the chat: all that a client needs. */
  readonly api: string;
  /** The AI SDK's own client of that URL. */
  readonly chat: Chat<UIMessage>;
  /** The prompts of the model, call by call, without the instructions. */
  readonly prompts: () => string[][];
}

/** Starts a server with the agents `helper` and `other`, which answer from one script. */
export async function open(
  script: readonly ScriptedStep[],
  options: Partial<DefineAgentOptions> = {},
  target: Target = "start",
): Promise<Opened> {
  const model = scriptedModel(script);
  const agents = ["helper", "other"].map((id) => defineAgent({ id, instructions, model, ...options }));
  const server = await startTestServer(target, { config: { agents } });
  const { url } = await server.send("/agents", {});
  const api = new URL("/agents/helper/chat", url || "http://localhost").href;
  const chat = new Chat<UIMessage>({ transport: new DefaultChatTransport({ api }) });
  return { server, model, api, chat, prompts: () => model.calls.map(({ prompt }) => toLines(prompt)) };
}

/** Converts a prompt to lines. The instructions must be its first message. */
export function toLines([system, ...prompt]: LanguageModelV4Prompt): string[] {
  expect(system).toMatchObject({ role: "system", content: instructions });
  return prompt.map(({ role, content }) => {
    expect(role).not.toBe("system");
    const parts = typeof content === "string" ? [content] : content.map(toWord);
    return `${role}: ${parts.join(" ")}`;
  });
}

function toWord(part: Exclude<LanguageModelV4Prompt[number]["content"], string>[number]): string {
  if (part.type === "text") return part.text;
  if (part.type === "tool-call") return `[${part.toolName} ${JSON.stringify(part.input)}]`;
  if (part.type !== "tool-result") return `[${part.type}]`;
  const { output } = part;
  return `[${part.toolName} → ${"value" in output ? JSON.stringify(output.value) : output.type}]`;
}

export const shown = ({ messages }: { messages: readonly UIMessage[] }): string[] => messages.map(toLine);
export const user = (text: string, id = crypto.randomUUID() as string): UIMessage => ({
  id,
  role: "user",
  parts: [{ type: "text", text }],
});
export const say = (
  server: TestServer,
  conversationId: string,
  content: string,
  options: object = {},
  agent = "helper",
) =>
  server.post(`/agents/${agent}/chat`, {
    input: [{ role: "user", content }],
    options: { conversationId, ...options },
  });
export const textOf = ({ events }: { events: any[] }): string =>
  events.flatMap(({ type, delta }) => (type === "text-delta" ? [delta] : [])).join("");

export const weather = defineTool({
  description: "The weather in a city",
  inputSchema: v.object({ city: v.string() }),
  execute: ({ city }) => ({ city, sky: "clear" }),
});
export const callWeather = (city: string) => ({ toolCalls: [{ toolName: "weather", input: { city } }] });
export const romeInModel = [
  'assistant: [weather {"city":"Rome"}]',
  'tool: [weather → {"city":"Rome","sky":"clear"}]',
  "assistant: Clear over Rome.",
];
export const romeOnPage = 'assistant: [weather {"city":"Rome"} → {"city":"Rome","sky":"clear"}] Clear over Rome.';

export const locate = tool({ description: "Where the client is", inputSchema: z.object({}) });
export const callLocate = { toolCalls: [{ toolName: "locate", input: {}, toolCallId: "l1" }] };

/** An answer that waits after each of its words. */
export async function* slowly(words: readonly string[], wait: (word: string) => Promise<void>) {
  yield { type: "stream-start", warnings: [] } satisfies LanguageModelV4StreamPart;
  yield { type: "text-start", id: "t" } satisfies LanguageModelV4StreamPart;
  for (const delta of words) {
    yield { type: "text-delta", id: "t", delta } satisfies LanguageModelV4StreamPart;
    await wait(delta);
  }
  yield { type: "text-end", id: "t" } satisfies LanguageModelV4StreamPart;
  yield finishPart();
}
