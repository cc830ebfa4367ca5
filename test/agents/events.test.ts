import { readFileSync } from "node:fs";
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { tool } from "ai";
import * as v from "valibot";
import { expect, it } from "vitest";
import { z } from "zod";
import { defineAgent, defineTool } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { EventShapes } from "../../src/agents/shapes.ts";
import { startTestServer } from "../harness/server.ts";
import { isLowestSdk } from "./lowest-sdk.ts";

const section = /## Events of `stream`\n([^]*?)\n## /.exec(readFileSync("docs/agents.md", "utf8"))![1]!;
const rows = [...section.matchAll(/^\| `([\w-]+)` \|(.*)\|$/gm)];
/** What the docs say: the fields of each event, and which of them are always there. */
const documented = new Map(
  rows.map(([, type, cell]) => {
    const names = [...cell!.replace(/\(.*?\)/g, "").matchAll(/`(\w+)(\??)`/g)];
    return [type!, new Map(names.map(([, name, optional]) => [name!, optional !== "?"]))];
  }),
);

const instructions = "SENTINEL: never to be seen by anybody.";
const used = {
  inputTokens: { total: 7, noCache: 4, cacheRead: 3, cacheWrite: 0 },
  outputTokens: { total: 5, text: 3, reasoning: 2 },
};
const end = (unified: "stop" | "tool-calls"): LanguageModelV4StreamPart => ({
  type: "finish",
  usage: used,
  finishReason: { unified, raw: `raw-${unified}` },
  providerMetadata: { p: { end: 1 } },
});
const providerMetadata = { p: { m: 1 } };
const callOf = (toolName: string, toolCallId: string, input = "{}"): LanguageModelV4StreamPart => ({
  type: "tool-call",
  toolCallId,
  toolName,
  input,
});

const script: LanguageModelV4StreamPart[][] = [
  [
    { type: "stream-start", warnings: [{ type: "other", message: "careful" }] },
    { type: "response-metadata", id: "r1", timestamp: new Date(0), modelId: "big" },
    ...(isLowestSdk ? [] : [{ type: "ping" as const }]),
    { type: "reasoning-start", id: "r", providerMetadata },
    { type: "reasoning-delta", id: "r", delta: "hm", providerMetadata },
    { type: "reasoning-end", id: "r", providerMetadata },
    { type: "reasoning-file", mediaType: "image/png", data: { type: "data", data: "AAAA" }, providerMetadata },
    { type: "text-start", id: "t", providerMetadata },
    { type: "text-delta", id: "t", delta: "Hel" },
    { type: "text-delta", id: "t", delta: "lo", providerMetadata },
    { type: "text-end", id: "t", providerMetadata },
    { type: "source", sourceType: "url", id: "s1", url: "https://example.com", title: "Example", providerMetadata },
    { type: "source", sourceType: "document", id: "s2", mediaType: "text/plain", title: "Doc", filename: "a.txt" },
    { type: "file", mediaType: "text/plain", data: { type: "data", data: "aGk=" }, providerMetadata },
    { type: "custom", kind: "p.thing", providerMetadata },
    { type: "tool-input-start", id: "c1", toolName: "good", title: "Good", providerMetadata },
    { type: "tool-input-delta", id: "c1", delta: "{}", providerMetadata },
    { type: "tool-input-end", id: "c1", providerMetadata },
    { type: "tool-call", toolCallId: "c1", toolName: "good", input: "{}", providerMetadata },
    callOf("bad", "c2"),
    callOf("good", "c3", '{"n":"not a number"}'),
    callOf("slow", "c4"),
    { type: "tool-call", toolCallId: "c5", toolName: "search", input: "{}", providerExecuted: true, dynamic: true },
    {
      type: "tool-result",
      toolCallId: "c5",
      toolName: "search",
      result: { found: 1 },
      dynamic: true,
      providerMetadata,
    },
    end("tool-calls"),
  ],
  [{ type: "stream-start", warnings: [] }, callOf("asks", "c6"), end("tool-calls")],
  [
    { type: "stream-start", warnings: [] },
    { type: "text-start", id: "t" },
    { type: "text-delta", id: "t", delta: "Bye" },
    { type: "text-end", id: "t" },
    end("stop"),
  ],
  [
    { type: "stream-start", warnings: [] },
    { type: "text-start", id: "t" },
    { type: "text-delta", id: "t", delta: "Oh" },
    { type: "error", error: new Error(`${instructions} and the key`) },
  ],
];

const agent = defineAgent({
  id: "a",
  instructions,
  model: scriptedModel(script),
  tools: {
    good: defineTool({
      description: "",
      inputSchema: v.object({ n: v.optional(v.number()) }),
      execute: () => ({ ok: true }),
    }),
    bad: defineTool({
      description: "",
      inputSchema: v.object({}),
      execute: () => Promise.reject(new Error("no luck")),
    }),
    slow: tool({
      inputSchema: z.object({}),
      async *execute() {
        yield "half";
        yield "whole";
      },
    }),
    asks: tool({ inputSchema: z.object({}), needsApproval: true, execute: () => "done" }),
  },
});

it("every event of a stream is one that the docs list, with the fields that they list, and each of them is seen", async () => {
  const server = await startTestServer("start", { config: { agents: [agent] } });
  const options = { conversationId: "c" };
  const say = (input: unknown) => server.post("/agents/a/stream", { input, options });
  const first = await say("hello");
  const { approvalId } = first.events.find(({ type }) => type === "tool-approval-request");
  const denial = { type: "tool-approval-response", approvalId, approved: false, reason: "no" };
  const second = await say([{ role: "tool", content: [denial] }]);
  const third = await say("once more");
  const events = [first, second, third].flatMap((answer) => answer.events);

  expect([first, second, third].map((answer) => answer.events.at(-1).type)).toEqual(["finish", "finish", "error"]);
  for (const { type, ...fields } of events) {
    const listed = documented.get(type);
    expect(listed, `${type} is not in the docs`).toBeDefined();
    for (const name of Object.keys(fields)) expect([...listed!.keys()], `${type}.${name}`).toContain(name);
    const required = [...listed!].filter(([, always]) => always).map(([name]) => name);
    for (const name of required) expect(fields, `${type} without ${name}`).toHaveProperty(name);
  }
  const sent = new Set([...events.map(({ type }) => type), ...(isLowestSdk ? ["ping"] : [])]);
  // Only a turn that is stopped has the one, and a call that cannot wait the other: turns/stop.test.ts, approvals/answers.test.ts.
  const others = ["abort", "tool-approval-response"];
  expect(sent).toEqual(new Set([...documented.keys()].filter((type) => !others.includes(type))));
  for (const { text } of [first, second, third]) expect(text).not.toContain("SENTINEL");

  // What they say.
  const of = (type: string) => events.filter((event) => event.type === type);
  expect(of("text-delta").map(({ delta }) => delta)).toEqual(["Hel", "lo", "Bye", "Oh"]);
  expect(of("reasoning-delta").map(({ delta }) => delta)).toEqual(["hm"]);
  const results = Map.groupBy(of("tool-result"), ({ toolCallId }) => toolCallId);
  const toPair = ({ output, preliminary = false }: { output: unknown; preliminary?: boolean }) => [output, preliminary];
  expect(results.get("c5")!.map(toPair)).toEqual([[{ found: 1 }, false]]);
  expect(results.get("c1")!.map(toPair)).toEqual([[{ ok: true }, false]]);
  expect(results.get("c4")!.map(toPair)).toEqual([
    ["half", true],
    ["whole", true],
    ["whole", false],
  ]);
  expect(
    of("tool-error")
      .map(({ toolCallId }) => toolCallId)
      .toSorted(),
  ).toEqual(["c2", "c3"]);
  expect(of("tool-call").find(({ toolCallId }) => toolCallId === "c3")).toMatchObject({
    invalid: true,
    error: expect.any(String),
  });
  expect(of("file")).toEqual([{ type: "file", mediaType: "text/plain", data: "aGk=", providerMetadata }]);
  expect(of("tool-output-denied")).toMatchObject([{ toolCallId: "c6" }]);
  expect(of("finish-step")[0]).toMatchObject({
    rawFinishReason: "raw-tool-calls",
    response: { id: "r1", modelId: "big" },
  });
  const [one] = of("finish");
  const usage = { inputTokens: 14, outputTokens: 10, totalTokens: 24, reasoningTokens: 4, cachedInputTokens: 6 };
  expect(one).toEqual({ type: "finish", finishReason: "tool-calls", usage, totalUsage: usage });
  expect(of("error")).toEqual([{ type: "error", error: "Model call failed" }]);
});

it("the docs list what /doc lists", () => {
  const shapes = Object.entries(EventShapes).map(([type, { entries }]) => {
    const fields = Object.entries(entries).filter(([name]) => name !== "type");
    return [
      type,
      new Map(fields.map(([name, entry]) => [name, (entry as { type: string }).type !== "optional"])),
    ] as const;
  });
  expect(new Map(shapes)).toEqual(documented);
});
