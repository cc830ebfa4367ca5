import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";

export type ModelParts = AsyncGenerator<LanguageModelV4StreamPart>;

/** Creates an AI SDK model from a function that generates the parts of an answer. */
export function createModel(
  modelId: string,
  answer: (options: LanguageModelV4CallOptions) => ModelParts,
): LanguageModelV4 {
  return {
    specificationVersion: "v4",
    provider: "agentserve",
    modelId,
    supportedUrls: {},
    doGenerate: (options) => collect(answer(options)),
    async doStream(options) {
      const parts = answer(options);
      const first = await parts.next(); // an error thrown here fails the call, not the stream
      return { stream: toStream(first, parts) };
    },
  };
}

function toStream(
  first: IteratorResult<LanguageModelV4StreamPart>,
  parts: ModelParts,
): ReadableStream<LanguageModelV4StreamPart> {
  let next: typeof first | undefined = first;
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = next ?? (await parts.next());
      next = undefined;
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => void parts.return(undefined),
  });
}

/** Collects the parts into a whole answer, for a call without streaming. */
async function collect(parts: ModelParts): Promise<LanguageModelV4GenerateResult> {
  const content: LanguageModelV4Content[] = [];
  const open = new Map<string, { text: string }>();
  let usage = toUsage(0, 0);
  let finishReason: LanguageModelV4FinishReason = { unified: "other", raw: undefined };
  for await (const part of parts) {
    switch (part.type) {
      case "text-start":
      case "reasoning-start": {
        const block = { type: part.type === "text-start" ? ("text" as const) : ("reasoning" as const), text: "" };
        open.set(part.id, block);
        content.push(block);
        break;
      }
      case "text-delta":
      case "reasoning-delta":
        open.get(part.id)!.text += part.delta;
        break;
      case "finish":
        ({ usage, finishReason } = part);
        break;
      case "error":
        throw part.error;
      case "tool-call":
      case "tool-result":
      case "tool-approval-request":
      case "source":
      case "file":
      case "reasoning-file":
      case "custom":
        content.push(part);
    }
  }
  return { content, usage, finishReason, warnings: [] };
}

/** An answer of a model as plain data. It is streamed word by word. */
export interface PlainAnswer {
  /** The reasoning before the text. @default "" */
  readonly reasoning?: string | undefined;
  /** The text of the answer. @default "" */
  readonly text?: string | undefined;
  /** The tools to call. A missing `toolCallId` is generated. */
  readonly toolCalls?: readonly { toolName: string; input: unknown; toolCallId?: string | undefined }[] | undefined;
  /** The token counts to report. @default 1 input token, and one output token per word of `text` */
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number } | undefined;
}

/** Generates the parts of an answer: reasoning and text word by word, then the tool calls. */
export async function* toModelParts({ reasoning = "", text = "", toolCalls = [], usage }: PlainAnswer): ModelParts {
  yield { type: "stream-start", warnings: [] };
  yield* toBlock("reasoning", "r", reasoning);
  yield* toBlock("text", "t", text);
  for (const { toolName, input, toolCallId = crypto.randomUUID() } of toolCalls) {
    yield { type: "tool-call", toolCallId, toolName, input: JSON.stringify(input) };
  }
  const unified = toolCalls.length > 0 ? "tool-calls" : "stop";
  const { inputTokens, outputTokens } = usage ?? { inputTokens: 1, outputTokens: toWords(text).length };
  yield { type: "finish", finishReason: { unified, raw: unified }, usage: toUsage(inputTokens, outputTokens) };
}

async function* toBlock(kind: "text" | "reasoning", id: string, text: string): ModelParts {
  if (text === "") return;
  yield { type: `${kind}-start`, id };
  for (const delta of toDeltas(text)) yield { type: `${kind}-delta`, id, delta };
  yield { type: `${kind}-end`, id };
}

/** Splits text into words, or into at most `maxDeltas` groups of words: each delta costs several turns of promises. */
function toDeltas(text: string): string[] {
  const words = toWords(text);
  const size = Math.ceil(words.length / maxDeltas);
  if (size <= 1) return words;
  return Array.from({ length: Math.ceil(words.length / size) }, (_, index) =>
    words.slice(index * size, (index + 1) * size).join(""),
  );
}
const maxDeltas = 5_000;

/** Splits text into words. Each word keeps the whitespace after it. */
export const toWords = (text: string): string[] => text.match(/\S+\s*|\s+/g) ?? [];

const toUsage = (inputTokens: number, outputTokens: number): LanguageModelV4Usage => ({
  inputTokens: { total: inputTokens, noCache: inputTokens, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: outputTokens, text: outputTokens, reasoning: 0 },
});
