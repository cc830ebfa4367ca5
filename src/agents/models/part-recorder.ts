import type { LanguageModelV4StreamPart, LanguageModelV4Usage } from "@ai-sdk/provider";
import type { UsageRow } from "../../engine/usage.ts";
import type { RecordedCalls } from "../call/recorded-calls.ts";

/**
 * Records one stream of a model, and its usage.
 *
 * From the first tool call on, parts are held back until the whole call is recorded: the SDK runs a tool as soon as it sees
 * the call.
 */
export class PartRecorder {
  readonly #records: RecordedCalls;
  readonly #toUsageRow: (usage: LanguageModelV4Usage) => UsageRow;
  /** The parts so far, with deltas joined. */
  readonly #parts: LanguageModelV4StreamPart[] = [];
  /** The parts since the first tool call. */
  #held: LanguageModelV4StreamPart[] | undefined;

  constructor(records: RecordedCalls, toUsageRow: (usage: LanguageModelV4Usage) => UsageRow) {
    this.#records = records;
    this.#toUsageRow = toUsageRow;
  }

  /** Returns the parts that the SDK may see now. */
  async add(part: LanguageModelV4StreamPart): Promise<readonly LanguageModelV4StreamPart[]> {
    // Nothing of a call that has failed is recorded, and its tools do not run.
    if (part.type === "error") return [part];
    if (part.type !== "raw") addPart(this.#parts, part);
    if (part.type === "tool-call" && !part.providerExecuted) this.#held ??= [];
    if (part.type === "finish") {
      const saved = this.#records.saveModelCall(this.#parts, this.#toUsageRow(part.usage));
      const held = this.#held;
      this.#held = undefined;
      if (held) await saved;
      else saved.catch(() => {}); // it has ended the turn
      return held ? [...held, part] : [part];
    }
    if (!this.#held) return [part];
    this.#held.push(part);
    return [];
  }
}

/** Adds a part to a list. A delta that continues the last part is joined with it. */
function addPart(parts: LanguageModelV4StreamPart[], part: LanguageModelV4StreamPart): void {
  const last = parts.at(-1);
  const isJoined =
    (part.type === "text-delta" || part.type === "reasoning-delta" || part.type === "tool-input-delta") &&
    last?.type === part.type &&
    last.id === part.id &&
    last.providerMetadata === undefined &&
    part.providerMetadata === undefined;
  if (isJoined) parts[parts.length - 1] = { ...last, delta: last.delta + part.delta };
  else parts.push(part);
}
