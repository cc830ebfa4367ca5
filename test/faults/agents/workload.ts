import { setTimeout as sleep } from "node:timers/promises";
import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import * as v from "valibot";
import { andAgent, defineAgent, defineTool, defineWorkflow, type AgentDefinition } from "../../../src/index.ts";
import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";
import { scriptedModel } from "../../../src/models.ts";
import { finishPart } from "../../harness/finish-part.ts";
import type { Gates } from "../../harness/gates.ts";
import type { Told } from "./log.ts";
import { needsTool, toLine } from "./turns.ts";

export interface Surroundings {
  /** Written before anything else happens. */
  readonly tell: (what: Told) => void;
  /** Somebody may want the process to end here. */
  readonly pass: (point: string, key: string) => void;
  readonly gates: Gates;
  readonly life: number;
}

/** An agent whose model is asked by a key, and workflows that ask it in every way. */
export function createWorkload(around: Surroundings): { agents: AgentDefinition[]; workflows: WorkflowDefinition[] } {
  const { tell, pass } = around;
  const look = defineTool({
    description: "Looks",
    inputSchema: v.object({ key: v.string() }),
    execute({ key }) {
      tell({ what: "tool", key });
      pass("tool", key);
      return { key };
    },
  });
  const agent = defineAgent({
    id: "talker",
    instructions: "Answer.",
    model: scriptedModel(Array.from({ length: 100_000 }, () => createAnswers(around))),
    tools: { look },
    maxRetries: 0,
  });
  const step = (key: string): void => {
    tell({ what: "step", key });
    pass("step", key);
  };
  const prompt = ({ idempotencyKey }: { idempotencyKey: string }): string => idempotencyKey;
  const deep = defineWorkflow({ id: "inner" }).andAgent({ id: "deep", agent, prompt });
  const talk = defineWorkflow({ id: "talk" })
    .andAgent({ id: "text", agent, prompt })
    .andAgent({ id: "object", agent, prompt, schema: v.object({ key: v.string(), answer: v.string() }) })
    .andAgent({ id: "mapped", agent, prompt, map: (text) => ({ text }) })
    .andAll({
      id: "both",
      steps: [andAgent({ id: "left", agent, prompt }), andAgent({ id: "right", agent, prompt })],
    })
    .andWorkflow({ id: "sub", workflow: deep as never })
    .andThen({
      id: "last",
      execute({ idempotencyKey, getStepData }) {
        step(idempotencyKey);
        const steps = ["text", "object", "mapped", "left", "right", "sub/deep"];
        return Object.fromEntries(steps.map((id) => [id, getStepData(id)]));
      },
    });
  return { agents: [agent], workflows: [talk, deep] };
}

/** The keys of what one execution asks, in order; the fourth and the fifth are asked at the same time. */
export const keysOf = (id: string): string[] =>
  ["text", "object", "mapped", "left", "right", "sub/deep"].map((path) => `${id}/${path}`);

function createAnswers({ tell, pass, gates, life }: Surroundings) {
  return async ({ prompt, responseFormat, abortSignal }: LanguageModelV4CallOptions) => {
    const messages = prompt.filter(({ role }) => role !== "system");
    const lines = messages.map((message) => toLine(message as never));
    const key = lines.findLast((line) => line.startsWith("user: "))!.slice("user: ".length);
    const again = messages.at(-1)!.role === "tool";
    tell({ what: again ? "go on" : "ask", key, lines });
    abortSignal?.addEventListener("abort", () => tell({ what: "abort", key }));
    pass(again ? "asked again" : "asked", key);
    await sleep(Math.random() * 3); // so that a kill finds somebody at work
    if (needsTool(key) && !again) return { toolCalls: [{ toolName: "look", input: { key } }] };
    const said = `answer ${key} of ${life}.${Math.random().toString(36).slice(2)} to it`;
    const answer = responseFormat?.type === "json" ? JSON.stringify({ key, answer: said }) : said;
    return toParts(answer);

    async function* toParts(text: string): AsyncGenerator<LanguageModelV4StreamPart> {
      yield { type: "stream-start", warnings: [] };
      yield { type: "text-start", id: "t" };
      const words = text.split(/(?<= )/);
      for (const [index, delta] of words.entries()) {
        if (key.startsWith("gated")) await gates.pass(`${key} ${index}`);
        if (index === 2) pass("half", key);
        yield { type: "text-delta", id: "t", delta };
        await sleep(Math.random() * 2);
      }
      yield { type: "text-end", id: "t" };
      pass("said", key);
      tell({ what: "answer", key, text });
      yield finishPart();
      pass("finished", key);
    }
  };
}
