import { defineAgent, defineTool, type AgentDefinition, type DefineAgentOptions } from "agentserve";
import { scriptedModel, type ScriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import type { Answer } from "../../harness/client.ts";

/** The tokens of one model call: input, output, and the parts of them that are cached and reasoning. */
export type Tokens = readonly [input: number, output: number, cached?: number, reasoning?: number];

/** The question whose model calls report these tokens. All but the last call the tool `next`. */
export const toQuestion = (...calls: readonly Tokens[]): string => calls.map((one) => one.join("/")).join(" ");

const answer: ScriptedStep = ({ prompt }) => {
  const question = prompt.findLastIndex(({ role }) => role === "user");
  const said = (prompt[question]!.content as { text: string }[]).map(({ text }) => text).join("");
  const calls = said.split(" ");
  const done = prompt.slice(question).filter(({ role }) => role === "tool").length;
  const [input, output, cacheRead, reasoning] = calls[done]!.split("/").map(Number);
  if (Number.isNaN(input)) throw new Error("This model fails");
  const usage = {
    inputTokens: { total: input, noCache: undefined, cacheRead, cacheWrite: undefined },
    outputTokens: { total: output, text: undefined, reasoning },
  };
  const isLast = done === calls.length - 1;
  const reason = isLast ? "stop" : "tool-calls";
  const call = { type: "tool-call", toolCallId: `call-${done}`, toolName: "next", input: "{}" } as const;
  const text = [
    { type: "text-start", id: "t" },
    { type: "text-delta", id: "t", delta: '{"done":true}' },
    { type: "text-end", id: "t" },
  ] as const;
  return [
    { type: "stream-start", warnings: [] },
    ...(isLast ? text : [call]),
    { type: "finish", usage, finishReason: { unified: reason, raw: reason } },
  ];
};

/** A model that reports the tokens that its question says. */
export const meteredModel = (modelId = "metered", provider = "test.api"): ScriptedModel => ({
  ...scriptedModel(Array.from({ length: 10_000 }, () => answer)),
  provider,
  modelId,
});

const next = defineTool({ description: "Continues", inputSchema: v.object({}), execute: () => "more" });

export const meteredAgent = (id: string, options: Partial<DefineAgentOptions> = {}): AgentDefinition =>
  defineAgent({ id, instructions: "x", model: meteredModel(), tools: { next }, maxRetries: 0, ...options });

type Query = Record<string, string | number | undefined>;
interface Client {
  get(path: string, init?: any): Promise<Answer | { status: number; body: any }>;
}

/** Asks for the usage of an agent. */
export function readUsage(server: Client, agent: string, query: Query = {}, init?: object): Promise<any> {
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, `${value}`]]));
  const text = given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
  return server.get(`/agents/${agent}/usage${text}`, init);
}

/** Reads all items, page by page. */
export async function readItems(server: Client, agent: string, query: Query = {}): Promise<any[]> {
  const items: any[] = [];
  for (let cursor: string | undefined; ;) {
    const { body } = await readUsage(server, agent, { ...query, cursor });
    items.push(...body.data.items);
    if (body.data.nextCursor === null) return items;
    cursor = body.data.nextCursor;
  }
}

/** The counts of an item for model calls. */
export function sumOf(...calls: readonly Tokens[]) {
  const sum = (place: number): number => calls.reduce((all, one) => all + (one[place] ?? 0), 0);
  return {
    calls: calls.length,
    inputTokens: sum(0),
    outputTokens: sum(1),
    totalTokens: sum(0) + sum(1),
    reasoningTokens: sum(3),
    cachedInputTokens: sum(2),
  };
}
