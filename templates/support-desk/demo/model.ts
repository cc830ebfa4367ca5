import { echoModel } from "agentserve/models";

/**
 * A model without an API key, to try the desk offline. It finds the tool by words of the customer, and repeats the result.
 * Delete this file when you have a key.
 */
const echo = echoModel({ wordMs: 40 }); // calls the tool that a message names, with the JSON in the message
export const demoModel: typeof echo = {
  ...echo,
  doGenerate: (options) => echo.doGenerate(toEcho(options)),
  doStream: (options) => echo.doStream(toEcho(options)),
};

type Options = Parameters<typeof echo.doStream>[0];
type Message = Options["prompt"][number];

function toEcho(options: Options): Options {
  const say = (text: string, tools: Options["tools"] = []): Options => {
    return { ...options, tools, prompt: [{ role: "user", content: [{ type: "text", text }] }] };
  };
  const last = options.prompt.at(-1);
  if (last?.role === "tool") return say(readResults(last));
  const text = readText(last);
  const [number] = /\b\d{4}\b/.exec(text) ?? [];
  const [amount] = /\b\d{1,3}\b/.exec(text) ?? [];
  const call = (tool: string, input: object) => say(`${tool} ${JSON.stringify(input)}`, options.tools);
  if (number && amount && /refund|money/i.test(text)) return call("refund", { number, amount: Number(amount) });
  if (number) return call("lookUpOrder", { number });
  if (/return|deliver|warranty/i.test(text)) return call("searchHelpPages", { question: text });
  return say(`I know only a few words, until you give me a real model. You said: ${text}`);
}

function readText(message: Message | undefined): string {
  if (message?.role !== "user") return "";
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join(" ");
}

function readResults({ content }: Extract<Message, { role: "tool" }>): string {
  const results = content.flatMap((part) => (part.type === "tool-result" ? [part.output] : []));
  return results.map(readResult).join(" ");
}

function readResult(output: { type: string; value?: unknown; reason?: string | undefined }): string {
  if (output.type === "execution-denied") return `A manager has declined it: ${output.reason ?? "without a reason"}.`;
  if (output.type.startsWith("error")) return `That did not work: ${String(output.value)}.`;
  if (typeof output.value === "string") return output.value;
  const facts = Object.entries(output.value as object).map(([name, value]) => `${name} ${value}`);
  return `Here it is: ${facts.join(", ")}.`;
}
