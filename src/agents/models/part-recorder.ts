import type { LanguageModelV4StreamPart, LanguageModelV4Usage } from "@ai-sdk/provider";
import type { UsageRow } from "../../engine/contract/usage.ts";
import type { RecordedCalls } from "../call/recorded-calls.ts";
import { JoinedText } from "../messages/joined-text.ts";

/**
 * Records the stream of one model call, and its usage.
 *
 * From the first tool call on, parts are held back until the whole call is recorded: the SDK may run a tool as soon as it
 * sees the call.
 */
export class PartRecorder {
  readonly #records: RecordedCalls;
  readonly #toUsageRow: (usage: LanguageModelV4Usage) => UsageRow;
  /** The parts so far. Consecutive deltas of a text are one part. */
  readonly #parts: (LanguageModelV4StreamPart | JoinedDelta)[] = [];
  /** The parts since the first tool call. */
  #held: LanguageModelV4StreamPart[] | undefined;

  constructor(records: RecordedCalls, toUsageRow: (usage: LanguageModelV4Usage) => UsageRow) {
    this.#records = records;
    this.#toUsageRow = toUsageRow;
  }

  /** Returns the parts that the SDK may see now. */
  async add(part: LanguageModelV4StreamPart): Promise<readonly LanguageModelV4StreamPart[]> {
    // A failed call is not recorded. Its words are shown, and its tools do not run.
    if (part.type === "error") return [...(this.#held ?? []).filter((held) => !isOwnCall(held)), part];
    if (part.type !== "raw" && part.type !== "ping") this.#keep(part);
    if (isOwnCall(part)) this.#held ??= [];
    if (part.type === "finish") {
      const saved = this.#records.saveModelCall(this.#parts.map(toWhole), this.#toUsageRow(part.usage));
      const held = this.#held;
      this.#held = undefined;
      if (held) await saved;
      else saved.catch(() => {}); // its failure ended the turn
      return held ? [...held, part] : [part];
    }
    if (!this.#held) return [part];
    this.#held.push(part);
    return [];
  }

  /** Keeps a part. A delta that continues the last part is joined with it. */
  #keep(part: LanguageModelV4StreamPart): void {
    if (part.type !== "text-delta" && part.type !== "reasoning-delta" && part.type !== "tool-input-delta")
      return void this.#parts.push(part);
    const last = this.#parts.at(-1);
    const isJoined = last && "first" in last && continuesDelta(last.first, part);
    const joined = isJoined ? last : { first: part, text: new JoinedText() };
    if (!isJoined) this.#parts.push(joined);
    joined.text.add(part.delta);
  }
}

/** True for a call of a tool that the server or the client runs. */
const isOwnCall = (part: LanguageModelV4StreamPart): boolean => part.type === "tool-call" && !part.providerExecuted;

type Delta = Extract<LanguageModelV4StreamPart, { type: "text-delta" | "reasoning-delta" | "tool-input-delta" }>;
/** True for a delta that can be joined with the one before. */
export const continuesDelta = (before: Delta, next: Delta): boolean =>
  before.type === next.type &&
  before.id === next.id &&
  before.providerMetadata === undefined &&
  next.providerMetadata === undefined;

interface JoinedDelta {
  readonly first: Delta;
  readonly text: JoinedText;
}
const toWhole = (part: LanguageModelV4StreamPart | JoinedDelta): LanguageModelV4StreamPart =>
  "first" in part ? { ...part.first, delta: String(part.text) } : part;
