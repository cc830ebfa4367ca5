import { once } from "node:events";
import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { finishPart } from "../../harness/finish-part.ts";
import { defineAgent, type AgentDefinition } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/models.ts";
import { toLine } from "../agents/turns.ts";
import { modelFaults, type Faults } from "./faults.ts";

/** An agent whose model fails, stalls or breaks off now and then. Its questions are keys. */
export interface FaultyAgent {
  readonly agent: AgentDefinition;
  /** The answers that the model has given whole, by key. */
  readonly said: ReadonlyMap<string, string>;
  /** The messages before the question with this key, as the model was last shown them. */
  readonly shown: ReadonlyMap<string, readonly string[]>;
}

export function createFaultyAgent(faults: Faults): FaultyAgent {
  const said = new Map<string, string>();
  const shown = new Map<string, readonly string[]>();
  async function* answer({
    prompt,
    abortSignal,
  }: LanguageModelV4CallOptions): AsyncGenerator<LanguageModelV4StreamPart> {
    const lines = prompt.filter(({ role }) => role !== "system").map((message) => toLine(message as never));
    const key = lines.at(-1)!.slice("user: ".length);
    const fault = faults.next(...modelFaults);
    shown.set(key, lines.slice(0, -1));
    if (fault === "model fails") throw new Error("overloaded");
    if (fault === "model stalls") await stall(abortSignal);
    const text = `answer ${key} number ${faults.random.between(0, 1e9)} to it`;
    yield { type: "stream-start", warnings: [] };
    yield { type: "text-start", id: "t" };
    for (const [index, delta] of text.split(/(?<= )/).entries()) {
      if (index === 2 && fault === "model breaks off") throw new Error("connection reset");
      if (index === 2 && fault === "model stalls inside") await stall(abortSignal);
      yield { type: "text-delta", id: "t", delta };
    }
    yield { type: "text-end", id: "t" };
    said.set(key, text);
    yield finishPart();
  }
  const agent = defineAgent({
    id: "talker",
    instructions: "Answer.",
    model: scriptedModel(Array.from({ length: 10_000 }, () => answer)),
    maxRetries: 0,
  });
  return { agent, said, shown };
}

/** A model that no longer answers. The server gives it up. */
async function stall(signal: AbortSignal | undefined): Promise<never> {
  if (!signal?.aborted) await once(signal!, "abort");
  throw signal!.reason;
}
