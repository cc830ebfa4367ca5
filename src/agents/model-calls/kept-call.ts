import type {
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import type { Clock } from "../../core/clock.ts";
import { toIso } from "../../core/iso-time.ts";
import type { Usage } from "../shapes.ts";
import { ContentParts } from "./content-parts.ts";
import { ShownValues } from "./shown-value.ts";

/** Max kept characters of one prompt, and of one answer. */
const maxPrompt = 4_194_304;
const maxAnswer = 1_048_576;
/** The bytes that a call counts beside its texts. */
const ownBytes = 512;

/** A model call, as `GET …/turns/:turnId/steps` shows it. What is not known while it runs is null. */
export interface ModelCallView {
  index: number;
  startAt: string;
  endAt: string | null;
  ms: number | null;
  model: { provider: string; modelId: string };
  /** The messages without the instructions. Long ones lose the oldest. */
  prompt?: Record<string, unknown>[];
  /** The number of the oldest messages that the prompt has lost. */
  omittedMessages?: number;
  instructions?: string;
  tools?: string[];
  parts: unknown[];
  finishReason: string | null;
  usage: Usage | null;
  error?: string;
}
type Asked = Pick<ModelCallView, "prompt" | "omittedMessages" | "instructions" | "tools">;
type Answered = Pick<ModelCallView, "parts" | "finishReason" | "usage">;

interface KeptCallOptions {
  readonly index: number;
  readonly model: ModelCallView["model"];
  readonly params: LanguageModelV4CallOptions;
  readonly clock: Clock;
  /** Called at the end of the call, with the bytes that it counts in addition. */
  readonly onEnd: (bytes: number) => void;
}

/** One model call that is kept. Its texts are bytes outside of the heap, except for an answer that is being made. */
export class KeptCall {
  readonly index: number;
  readonly #model: ModelCallView["model"];
  readonly #startAt: number;
  readonly #since: number;
  readonly #clock: Clock;
  readonly #asked: Buffer;
  readonly #onEnd: (bytes: number) => void;
  #parts: ContentParts | undefined = new ContentParts();
  #finishReason: string | null = null;
  #usage: Usage | null = null;
  #answered: Buffer | undefined;
  #end: { readonly at: number; readonly ms: number; readonly error: string | undefined } | undefined;

  constructor({ index, model, params, clock, onEnd }: KeptCallOptions) {
    this.index = index;
    this.#model = { provider: model.provider, modelId: model.modelId };
    this.#startAt = clock.now();
    this.#since = clock.monotonic();
    this.#clock = clock;
    this.#onEnd = onEnd;
    this.#asked = toBytes(toAsked(params));
  }

  get bytes(): number {
    return ownBytes + this.#asked.byteLength + (this.#answered?.byteLength ?? 0);
  }

  /** Takes a part of the stream. */
  see(part: LanguageModelV4StreamPart): void {
    this.#parts?.add(part);
    if (part.type === "finish") this.#finish(part);
  }

  /** Takes an answer that is not streamed. */
  answer(result: LanguageModelV4GenerateResult): void {
    this.#parts?.addAll(result.content);
    this.#finish(result);
  }

  #finish({ finishReason, usage }: Pick<LanguageModelV4GenerateResult, "finishReason" | "usage">): void {
    this.#finishReason = finishReason.unified;
    this.#usage = toUsage(usage);
  }

  end(error: string | undefined): void {
    if (this.#end) return;
    const ms = Math.round(this.#clock.monotonic() - this.#since);
    this.#end = { at: this.#clock.now(), ms, error };
    this.#answered = toBytes(this.#toAnswered());
    this.#parts = undefined;
    this.#onEnd(this.#answered.byteLength);
  }

  #toAnswered(): Answered {
    const values = new ShownValues(maxAnswer);
    const parts = (this.#parts?.all() ?? []).map((part) => values.copy(part) ?? { truncated: true });
    return { parts, finishReason: this.#finishReason, usage: this.#usage };
  }

  /** `hasPrompt`: the caller may see the prompt and the instructions. */
  toView(hasPrompt: boolean): ModelCallView {
    const { prompt, omittedMessages, instructions, tools } = fromBytes<Asked>(this.#asked);
    const answered = this.#answered ? fromBytes<Answered>(this.#answered) : this.#toAnswered();
    const { at, ms, error } = this.#end ?? {};
    return {
      index: this.index,
      startAt: toIso(this.#startAt),
      endAt: at === undefined ? null : toIso(at),
      ms: ms ?? null,
      model: this.#model,
      ...(hasPrompt && prompt && { prompt }),
      ...(hasPrompt && omittedMessages !== undefined && { omittedMessages }),
      ...(hasPrompt && instructions !== undefined && { instructions }),
      ...(tools && { tools }),
      ...answered,
      ...(error !== undefined && { error }),
    };
  }
}

const toBytes = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const fromBytes = <T>(bytes: Buffer): T => JSON.parse(bytes.toString()) as T;

function toAsked({ prompt, tools }: LanguageModelV4CallOptions): Asked {
  const first = prompt.findIndex(({ role }) => role !== "system");
  const system = prompt.slice(0, first < 0 ? prompt.length : first);
  const values = new ShownValues(maxPrompt);
  const instructions = values.copy(system.map(({ content }) => content).join("\n\n")) as string; // a copy of a text
  const messages = toMessages(prompt.slice(system.length), values);
  const omittedMessages = prompt.length - system.length - messages.length;
  return {
    prompt: messages,
    ...(omittedMessages > 0 && { omittedMessages }),
    ...(system.length > 0 && { instructions }),
    ...(tools && tools.length > 0 && { tools: tools.map(({ name }) => name) }),
  };
}

/** Copies messages, the newest first, as far as they fit. */
function toMessages(prompt: LanguageModelV4Prompt, values: ShownValues): Record<string, unknown>[] {
  const messages: Record<string, unknown>[] = [];
  for (const message of prompt.toReversed()) {
    if (values.left <= 0) break;
    messages.unshift(values.copy(message) as Record<string, unknown>); // a copy of an object
  }
  return messages;
}

function toUsage({ inputTokens, outputTokens }: LanguageModelV4Usage): Usage {
  const { total: input, cacheRead } = inputTokens;
  const { total: output, reasoning } = outputTokens;
  return {
    inputTokens: input ?? null,
    outputTokens: output ?? null,
    totalTokens: input === undefined || output === undefined ? (input ?? output ?? null) : input + output,
    ...(reasoning !== undefined && { reasoningTokens: reasoning }),
    ...(cacheRead !== undefined && { cachedInputTokens: cacheRead }),
  };
}
