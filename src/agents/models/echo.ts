import { setTimeout as sleep } from "node:timers/promises";
import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Prompt } from "@ai-sdk/provider";
import type { JsonSchema } from "../../core/schemas/json-schema.ts";
import { tryParseJson } from "../../core/json.ts";
import { sampleSchema } from "../../core/schemas/schema-sample.ts";
import { createModel, toModelParts, toWords, type ModelParts, type PlainAnswer } from "./create-model.ts";

/** The options of `echoModel()`. */
export interface EchoModelOptions {
  /** The delay between two words of a stream, in milliseconds. @default 0 */
  wordMs?: number;
}

/**
 * Creates a model that needs no API key. It repeats the last message of the user, calls a tool that the message names,
 * and fills a JSON Schema. JSON in the message becomes the input of the tool, or the object.
 */
export function echoModel({ wordMs = 0 }: EchoModelOptions = {}): LanguageModelV4 {
  return createModel("echo", async function* (options): ModelParts {
    const { prompt, abortSignal: signal } = options;
    const inputTokens = toWords(prompt.map(textOf).join(" ")).length;
    const answer = toAnswer(options);
    const outputTokens = toWords(answer.text ?? "").length;
    for await (const part of toModelParts({ ...answer, usage: { inputTokens, outputTokens } })) {
      if (wordMs > 0 && part.type === "text-delta") await sleep(wordMs, undefined, { signal });
      yield part;
    }
  });
}

function toAnswer({ prompt, tools = [], responseFormat }: LanguageModelV4CallOptions): PlainAnswer {
  const last = prompt.at(-1);
  const said = textOf(prompt.findLast(({ role }) => role === "user"));
  const tool = last?.role === "user" ? tools.find(({ name }) => isNamed(name, said)) : undefined;
  if (tool?.type === "function") {
    const [, about = ""] = said.split(new RegExp(escape(tool.name), "i"));
    return {
      toolCalls: [
        {
          toolName: tool.name,
          input: findJson(said) ?? generateSample(tool.inputSchema as JsonSchema, toTopic(about)),
        },
      ],
    };
  }
  if (responseFormat?.type === "json") {
    return {
      text: JSON.stringify(findJson(said) ?? generateSample((responseFormat.schema ?? {}) as JsonSchema, said)),
    };
  }
  return { text: last?.role === "tool" ? textOf(last) : said };
}

/** Generates a value. Optional properties are filled only near the root, because a recursive schema has no end. */
const generateSample = (schema: JsonSchema, text: string): unknown =>
  sampleSchema(schema, {
    text: text.slice(0, 1_000),
    optionalDepth: 4,
    maxValues: 1_000,
    maxDepth: 64,
    maxText: 10_000,
  });

const isNamed = (name: string, text: string): boolean => new RegExp(`\\b${escape(name)}\\b`, "i").test(text);
const escape = (text: string): string => text.replace(/[^\w]/g, "\\$&");

/** Returns `Berlin` for ` in Berlin?`. */
const toTopic = (text: string): string =>
  text
    .slice(0, 1_000)
    .replace(/^\W*((in|of|for|with|about|on)\s+)?/i, "")
    .replace(/\W+$/, "");

function findJson(text: string): unknown {
  const start = text.search(/[{[]/);
  const end = Math.max(text.lastIndexOf("}"), text.lastIndexOf("]"));
  return end > start && start >= 0 ? tryParseJson(text.slice(start, end + 1)) : undefined;
}

/** Returns the text of a message, or the results in a message of tools. */
function textOf(message: LanguageModelV4Prompt[number] | undefined): string {
  if (!message) return "";
  if (typeof message.content === "string") return message.content;
  const texts = message.content.map((part) => {
    if (part.type === "text") return part.text;
    if (part.type !== "tool-result") return "";
    const { output } = part;
    const result = "value" in output ? output.value : output.type;
    return `${part.toolName}: ${typeof result === "string" ? result : JSON.stringify(result)}`;
  });
  return texts.filter(Boolean).join("\n");
}
