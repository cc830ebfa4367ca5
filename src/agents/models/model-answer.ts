import type {
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import type { UsageRow } from "../../engine/contract/usage.ts";
import type { RecordedCalls } from "../call/recorded-calls.ts";
import { JoinedText } from "../messages/joined-text.ts";

/** The records of a turn, and the row that counts the usage of a model call. */
interface AnswerRecords {
  readonly records: RecordedCalls;
  readonly toUsageRow: (usage: LanguageModelV4Usage) => UsageRow;
}

/** The answer of one model call, as it arrives: the parts of its stream, of which the result of the call is made. */
export class ModelAnswer {
  /** The parts so far. Of the deltas of a text, only the first one, with the texts of all. */
  readonly #parts: (LanguageModelV4StreamPart | JoinedDelta)[] = [];
  /** The files that the provider has sent as URLs, with their data. */
  #loaded: Map<object, LanguageModelV4StreamPart> | undefined;
  readonly #recorded: AnswerRecords | undefined;

  /** Without records, nothing is recorded. */
  constructor(recorded?: AnswerRecords) {
    this.#recorded = recorded;
  }

  /**
   * Adds a part, and the same part with its data. The last one records the call. If there are tool calls, it resolves when the
   * record is durable: the SDK runs them when the call has ended.
   */
  async add(part: LanguageModelV4StreamPart, shown: LanguageModelV4StreamPart): Promise<void> {
    if (part.type === "raw" || part.type === "ping") return;
    if (shown !== part) (this.#loaded ??= new Map()).set(part, shown);
    this.#keep(part);
    if (part.type !== "finish" || !this.#recorded) return;
    const { records, toUsageRow } = this.#recorded;
    const saved = records.saveModelCall(this.#parts.map(toWhole), toUsageRow(part.usage));
    if (this.#parts.some((one) => "type" in one && one.type === "tool-call" && !one.providerExecuted)) await saved;
    else saved.catch(() => {}); // it has ended the turn
  }

  /** Keeps a part. A delta that continues the last part is joined with it. */
  #keep(part: LanguageModelV4StreamPart): void {
    if (part.type !== "text-delta" && part.type !== "reasoning-delta" && part.type !== "tool-input-delta")
      return void this.#parts.push(part);
    const last = this.#parts.at(-1);
    const isJoined =
      last &&
      "first" in last &&
      last.first.type === part.type &&
      last.first.id === part.id &&
      last.first.providerMetadata === undefined &&
      part.providerMetadata === undefined;
    const joined = isJoined ? last : { first: part, text: new JoinedText() };
    if (!isJoined) this.#parts.push(joined);
    joined.text.add(part.delta);
  }

  /**
   * Returns the result of the call, as a model returns it that does not stream. A result of a tool that the provider runs may come
   * in a later call than its own (`isDeferred`): the SDK refuses a result of another tool without a call.
   */
  toResult(
    { request, response }: Omit<LanguageModelV4StreamResult, "stream">,
    tools: DeferredTools,
  ): LanguageModelV4GenerateResult {
    const parts = this.#parts.map((part) => this.#loaded?.get(part) ?? toWhole(part));
    const finish = parts.findLast((part) => part.type === "finish");
    if (!finish) throw new Error("The model's answer ended without a finish part");
    const { usage, finishReason, providerMetadata } = finish;
    const warnings = parts.findLast((part) => part.type === "stream-start")?.warnings ?? [];
    const metadata = parts.flatMap((part) => (part.type === "response-metadata" ? toKnown(part) : []));
    return {
      content: toContent(parts, tools),
      finishReason,
      usage,
      warnings,
      ...(providerMetadata && { providerMetadata }),
      ...(request && { request }),
      response: { ...Object.assign({}, ...metadata), ...(response?.headers && { headers: response.headers }) },
    };
  }
}

/** Returns the fields that are known: a later part does not remove what an earlier one has said. */
const toKnown = (part: object): object =>
  Object.fromEntries(Object.entries(part).filter(([name, value]) => name !== "type" && value !== undefined));

/** The tools of the provider whose results may come in a later model call. */
interface DeferredTools {
  isDeferred(toolName: string): boolean;
}

function toContent(parts: readonly LanguageModelV4StreamPart[], tools: DeferredTools): LanguageModelV4Content[] {
  const content: (LanguageModelV4Content | Block)[] = [];
  const open = new Map<string, Block[]>();
  const made = new Set(parts.flatMap((part) => (part.type === "tool-call" ? part.toolCallId : [])));
  for (const part of parts) {
    switch (part.type) {
      case "text-start":
      case "text-delta":
      case "text-end":
      case "reasoning-start":
      case "reasoning-delta":
      case "reasoning-end": {
        const [kind, place] = part.type.split("-") as ["text" | "reasoning", string];
        const own = open.get(`${kind} ${part.id}`) ?? [];
        open.set(`${kind} ${part.id}`, own);
        const block: Block = (place === "start" ? undefined : own.at(-1)) ?? { type: kind, text: "" };
        if (place === "start" || own.length === 0) content.push(block);
        if (place === "start") own.push(block);
        if (place === "end") own.pop();
        const { type: _type, id: _id, delta = "", ...more } = part as typeof part & { delta?: string };
        Object.assign(block, Object.fromEntries(Object.entries(more).filter(([, value]) => value !== undefined)));
        block.text += delta;
        break;
      }
      case "tool-result":
        if (made.has(part.toolCallId) || tools.isDeferred(part.toolName)) content.push(part);
        break;
      case "tool-call":
      case "tool-approval-request":
      case "source":
      case "file":
      case "reasoning-file":
      case "custom":
        content.push(part);
    }
  }
  return content;
}

/** A text in the making. It has the metadata of the last of its parts that has some. */
interface Block {
  type: "text" | "reasoning";
  text: string;
}

type Delta = Extract<LanguageModelV4StreamPart, { type: "text-delta" | "reasoning-delta" | "tool-input-delta" }>;
interface JoinedDelta {
  readonly first: Delta;
  readonly text: JoinedText;
}
const toWhole = (part: LanguageModelV4StreamPart | JoinedDelta): LanguageModelV4StreamPart =>
  "first" in part ? { ...part.first, delta: String(part.text) } : part;
