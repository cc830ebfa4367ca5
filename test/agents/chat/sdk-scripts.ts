import type { LanguageModelV4Content, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { dynamicTool, tool, type ToolSet } from "ai";
import { z } from "zod";
import type { Random } from "../../faults/kills/plan.ts";

/** The functions of tools that were called, in order. */
export const heard: string[] = [];
const input = z.object({ n: z.number() });
/** The largest input of the tool `guarded`. */
export const most = { n: 9 };
const hear = (name: string) => ({
  onInputStart: ({ toolCallId }: { toolCallId: string }) => void heard.push(`${name} ${toolCallId} starts`),
  onInputDelta: ({ toolCallId, inputTextDelta }: { toolCallId: string; inputTextDelta: string }) =>
    void heard.push(`${name} ${toolCallId} adds ${inputTextDelta}`),
  onInputAvailable: ({ toolCallId, input: given }: { toolCallId: string; input: unknown }) =>
    void heard.push(`${name} ${toolCallId} has ${JSON.stringify(given)}`),
});

/** Tools of every kind. */
export const tools: ToolSet = {
  add: tool({
    title: "Adds one",
    description: "Adds one",
    inputSchema: input,
    execute: ({ n }) => n + 1,
    ...hear("add"),
  }),
  shape: tool({
    description: "Changes its input",
    inputSchema: z.object({ n: z.number().transform((n) => n * 2) }),
    metadata: { kind: "of shapes" },
    execute: ({ n }) => ({ n, list: [n, null], nothing: undefined }),
  }),
  silent: tool({ description: "Returns nothing", inputSchema: input, execute: () => undefined }),
  fail: tool({
    description: "Fails",
    inputSchema: input,
    execute: ({ n }): string => {
      throw new Error(`failed ${n}`);
    },
  }),
  many: tool({
    description: "Has several results",
    inputSchema: input,
    ...hear("many"),
    async *execute({ n }) {
      for (let count = 0; count < n; count++) yield { count };
    },
  }),
  broken: tool({
    description: "Fails after its first result",
    inputSchema: input,
    async *execute() {
      yield { count: 0 };
      throw new Error("broken");
    },
  }),
  late: dynamicTool({ description: "Is dynamic", inputSchema: input, execute: async (given) => ({ given }) }),
  client: tool({ description: "Runs on the client", inputSchema: input, ...hear("client") }),
  guarded: tool({
    description: "Needs approval",
    inputSchema: z.object({ n: z.number().refine((n) => n <= most.n, "too much") }),
    needsApproval: true,
    execute: ({ n }) => `ran ${n}`,
  }),
  choosy: tool({
    description: "Needs approval of some",
    inputSchema: input,
    needsApproval: ({ n }) => n > 4,
    execute: ({ n }) => `chose ${n}`,
  }),
};
const names = [...Object.keys(tools), "unknown", "constructor"];

const usage = {
  inputTokens: { total: 5, noCache: 5, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 7, text: 7, reasoning: 0 },
};
export const finish = (unified: "stop" | "tool-calls" | "length" = "stop"): LanguageModelV4StreamPart => ({
  type: "finish",
  finishReason: { unified, raw: unified },
  usage,
  providerMetadata: { test: { finished: true } },
});

/** The kinds of pieces, the usual ones twice. */
const kinds = "text text reasoning call call provider source file custom raw".split(" ");

/** Makes the parts of one model call. */
export class ScriptedCall {
  readonly #random: Random;
  #count = 0;
  #hasCalls = false;
  #isMixed = false;

  constructor(random: Random) {
    this.#random = random;
  }

  toParts(): LanguageModelV4StreamPart[] {
    const random = this.#random;
    this.#isMixed = random.chance(0.4);
    const pieces = Array.from({ length: random.between(0, 5) }, () => this.#piece());
    const parts: LanguageModelV4StreamPart[] = [{ type: "stream-start", warnings: [] }];
    if (random.chance(0.7)) parts.push({ type: "response-metadata", id: "r", modelId: "m", timestamp: new Date(0) });
    parts.push(...(this.#isMixed ? shuffle(random, pieces) : pieces.flat()));
    const reason = random.chance(0.08) ? "length" : this.#hasCalls ? "tool-calls" : "stop";
    if (random.chance(0.06)) return [...parts, { type: "error", error: new Error("overloaded") }];
    return random.chance(0.05) ? parts : [...parts, finish(reason)];
  }

  /** Metadata, at times. */
  #meta() {
    return this.#random.chance(0.25) ? { providerMetadata: { test: { n: ++this.#count } } } : {};
  }
  #id(kind: string): string {
    // Some providers use an id again, in the same answer and in the next, but not for two texts at once.
    return !this.#isMixed && this.#random.chance(0.15) ? kind : `${kind}${++this.#count}`;
  }

  #piece(): LanguageModelV4StreamPart[] {
    const random = this.#random;
    const kind = random.pick(...kinds);
    if (kind === "text" || kind === "reasoning") return this.#text(kind);
    if (kind === "call") return this.#call();
    if (kind === "provider") return this.#providerCall();
    const id = this.#id("s");
    if (kind === "source") {
      return random.chance(0.5)
        ? [
            {
              type: "source",
              sourceType: "url",
              id,
              url: `https://example.com/${id}`,
              title: "A page",
              ...this.#meta(),
            },
          ]
        : [{ type: "source", sourceType: "document", id, mediaType: "text/plain", title: "A text", filename: "a.txt" }];
    }
    const data = { type: "data", data: random.chance(0.5) ? "aGk=" : new Uint8Array([1, 2, 3]) } as const;
    if (kind === "file") {
      const type = random.pick("file", "reasoning-file");
      return [{ type, mediaType: "image/png", data, ...this.#meta() }] as LanguageModelV4StreamPart[];
    }
    return kind === "custom"
      ? [{ type: "custom", kind: "test.own", ...this.#meta() }]
      : [{ type: "raw", rawValue: id }];
  }

  #text(kind: "text" | "reasoning"): LanguageModelV4StreamPart[] {
    const random = this.#random;
    const id = this.#id("t");
    const deltas = Array.from({ length: random.between(0, 4) }, () => ({
      type: `${kind}-delta` as const,
      id,
      delta: random.pick("", "words ", "more words\n", "ä😀"),
      ...this.#meta(),
    }));
    const isOrphan = random.chance(0.03); // an error of the provider
    const start = isOrphan ? [] : [{ type: `${kind}-start` as const, id, ...this.#meta() }];
    return [...start, ...deltas, { type: `${kind}-end`, id, ...this.#meta() }];
  }

  #input(): string {
    const n = this.#random.between(0, 9);
    return this.#random.pick(`{"n":${n}}`, `{"n":${n}}`, `{"n":${n}}`, `{"n":"x"}`, "{", "", `{"n":1,"__proto__":{}}`);
  }

  #call(): LanguageModelV4StreamPart[] {
    const random = this.#random;
    const toolName = random.pick(...names);
    const toolCallId = `c${++this.#count}`;
    const text = this.#input();
    this.#hasCalls = true;
    const call = { type: "tool-call", toolCallId, toolName, input: text, ...this.#meta() } as const;
    if (random.chance(0.4)) return [call];
    return [
      { type: "tool-input-start", id: toolCallId, toolName },
      ...[...text].map((delta) => ({ type: "tool-input-delta" as const, id: toolCallId, delta })),
      ...(random.chance(0.2) ? [{ type: "tool-input-delta" as const, id: toolCallId, delta: "" }] : []),
      { type: "tool-input-end", id: toolCallId },
      call,
    ];
  }

  /** A call that the provider runs: of a tool that it has itself, or of one that it shares with us. */
  #providerCall(): LanguageModelV4StreamPart[] {
    const random = this.#random;
    const toolCallId = `p${++this.#count}`;
    const known = random.chance(0.3) ? { toolName: "add" } : { toolName: "search", dynamic: true };
    const call = { type: "tool-call" as const, toolCallId, input: this.#input(), providerExecuted: true, ...known };
    const start = { type: "tool-input-start" as const, id: toolCallId, providerExecuted: true, ...known };
    const result: LanguageModelV4Content = {
      type: "tool-result",
      toolCallId,
      result: random.chance(0.8) ? { found: 3 } : "no",
      ...known,
      ...(random.chance(0.2) && { isError: true }),
      ...this.#meta(),
    };
    return [
      ...(random.chance(0.5) ? [start] : []),
      { ...call, ...this.#meta() },
      ...(random.chance(0.8) ? [result] : []),
    ];
  }
}

/** Mixes lists, each of which keeps its order. */
function shuffle<T>(random: Random, lists: T[][]): T[] {
  const rest = lists.filter((list) => list.length > 0).map((list) => [...list]);
  const mixed: T[] = [];
  while (rest.length > 0) {
    const index = random.between(0, rest.length - 1);
    mixed.push(rest[index]!.shift()!);
    if (rest[index]!.length === 0) rest.splice(index, 1);
  }
  return mixed;
}
