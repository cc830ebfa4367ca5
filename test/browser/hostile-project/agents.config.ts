import { readFileSync } from "node:fs";
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { andThen, defineAgent, defineConfig, defineTool, defineWorkflow } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import * as v from "valibot";

const texts: string[] = JSON.parse(readFileSync("texts.json", "utf8"));
const TextInput = v.object({ text: v.string() });

/** Their names and purposes are shown. */
const named = texts.map((text, n) =>
  defineWorkflow({ id: `named-${n}`, name: text, purpose: text }).andThen({ id: "one", execute: ({ data }) => data }),
);
/** Names and purposes of steps, and a form whose fields have hostile names, titles, descriptions and choices. */
const fields = Object.fromEntries(
  texts.map((text) => [text, v.optional(v.pipe(v.picklist([text, "other"]), v.title(text), v.description(text)))]),
);
const steps = defineWorkflow({ id: "steps", input: v.object(fields) }).andAll({
  id: "all",
  steps: texts.map((text, n) =>
    andThen({ id: `step-${n}`, name: text, purpose: text, execute: ({ data }) => data as unknown }),
  ),
});

/** Values and events. Events are not stored: it emits them when it is resumed. */
const values = defineWorkflow({ id: "values" })
  .andThen({ id: "wait", execute: ({ data, resumeData, suspend }) => (resumeData ? data : suspend("Emit")) })
  .andThen({
    id: "emit",
    execute: ({ data, emit }) => {
      for (const text of texts) emit({ type: text, [text]: text });
      return data;
    },
  });
const logs = defineWorkflow({ id: "logs", input: v.object({ from: v.number(), count: v.number() }) }).andThen({
  id: "log",
  execute: ({ data: { from, count }, logger }) => {
    for (const text of texts.slice(from, from + count)) logger.info(text, { [text]: text });
  },
});
const fails = defineWorkflow({ id: "fails", input: TextInput }).andThen({
  id: "fail",
  execute: ({ data: { text } }) => {
    throw new Error(text);
  },
});
const asks = defineWorkflow({ id: "asks", input: TextInput }).andThen({
  id: "ask",
  execute: ({ data: { text }, resumeData, suspend }) => resumeData ?? suspend(text, { [text]: text }),
});

const described = texts.map((text, n) =>
  defineAgent({ id: `described-${n}`, name: text, description: text, instructions: "", model: echoModel() }),
);
const instructed = defineAgent({ id: "instructed", instructions: texts.join("\n"), model: echoModel() });
/** A page shows the newest 500 conversations of an agent. */
const talks = Array.from({ length: texts.length / 500 }, (_, n) =>
  defineAgent({ id: `talks-${n}`, instructions: "", model: echoModel() }),
);

/** Each second tool fails. */
const tools = texts.map((name, n) => [
  name,
  defineTool({
    description: name,
    inputSchema: v.record(v.string(), v.string()),
    execute: (input) => {
      if (n % 2 === 1) throw new Error(name);
      return input;
    },
  }),
]);
const equipped = defineAgent({
  id: "equipped",
  instructions: "",
  model: echoModel(),
  tools: Object.fromEntries(tools),
});
const callsOfOne = 100;
const calls = Array.from({ length: texts.length / callsOfOne }, (_, n) => {
  const [from, to] = [n * callsOfOne, (n + 1) * callsOfOne];
  const model = scriptedModel([callAll(texts.slice(from, to)), "done"]);
  return defineAgent({ id: `calls-${n}`, instructions: "", model, tools: Object.fromEntries(tools.slice(from, to)) });
});

function callAll(names: readonly string[]): LanguageModelV4StreamPart[] {
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 },
  };
  return [
    { type: "stream-start", warnings: [] },
    ...names.map((name) => ({
      type: "tool-call" as const,
      toolCallId: name,
      toolName: name,
      input: JSON.stringify({ [name]: name }),
    })),
    { type: "finish", finishReason: { unified: "tool-calls", raw: names[0] }, usage },
  ];
}

export default defineConfig({
  agents: [...described, instructed, equipped, ...talks, ...calls],
  workflows: [...named, steps, values, logs, fails, asks],
});
