/** A message, as the model is given it and as the file keeps it. */
interface Message {
  readonly role: string;
  readonly content: string | readonly any[];
}
/** One turn of a conversation: what was asked, and what was answered in the end. Undefined: it has begun and not ended. */
export interface Turn {
  readonly key: string;
  readonly answer: string | undefined;
}

/** What a message says, on one line. */
export function toLine({ role, content }: Message): string {
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : content;
  const texts = parts.map((part) => {
    if (part.type === "text") return part.text;
    if (part.type === "tool-call") return `calls ${part.toolName} ${JSON.stringify(part.input)}`;
    if (part.type === "tool-result") return `gives ${part.toolName} ${JSON.stringify(part.output.value)}`;
    return `unknown ${part.type}`;
  });
  return `${role}: ${texts.join(" | ")}`;
}

/** Whether the model calls its tool before it answers. */
export const needsTool = (key: string): boolean => /(text|left|deep|tool)$/.test(key);

/** The turns that these messages are. Each must be whole, or only its question: the question, the tool where it is called, the answer. */
export function toTurns(lines: readonly string[]): Turn[] {
  const turns: Turn[] = [];
  const rest = [...lines];
  while (rest.length > 0) {
    const [, key] = /^user: (.*)$/.exec(rest.shift()!) ?? [];
    if (key !== undefined && (rest[0] ?? "user: ").startsWith("user: ")) {
      turns.push({ key, answer: undefined });
      continue;
    }
    const input = JSON.stringify({ key });
    const tool = [`assistant: calls look ${input}`, `tool: gives look ${input}`];
    const isWhole = key !== undefined && (!needsTool(key) || tool.every((line) => rest.shift() === line));
    const [, answer] = /^assistant: (.*)$/.exec((isWhole && rest.shift()) || "") ?? [];
    if (answer === undefined || !answer.includes(key!)) throw new Error(`not whole turns:\n${lines.join("\n")}`);
    turns.push({ key: key!, answer });
  }
  return turns;
}
