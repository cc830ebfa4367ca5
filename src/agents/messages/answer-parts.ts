import type { ModelMessage, StepResult, TextStreamPart, ToolSet } from "ai";
import { isObject, toObject } from "../../core/json.ts";

/** A part of an answer, as the SDK streams it. */
export type SdkPart = TextStreamPart<ToolSet>;

/** Records the parts of a streamed answer. The deltas of a text are joined, and of a tool's results the last one counts. */
export class AnswerParts {
  readonly #parts: SdkPart[] = [];
  /** The joined deltas of texts and tool inputs that have not ended, by kind and id. */
  readonly #open = new Map<string, { text?: string; delta?: string; providerMetadata?: unknown }>();
  /** The places of results that are not final, by tool call. */
  readonly #preliminary = new Map<string, number>();

  add(part: SdkPart): void {
    switch (part.type) {
      case "text-delta":
      case "reasoning-delta":
      case "tool-input-delta":
        return this.#join(part);
      case "text-end":
      case "reasoning-end":
        this.#open.delete(`${part.type.replace("-end", "-delta")} ${part.id}`);
        break;
      case "tool-call": {
        const input = this.#open.get(`tool-input-delta ${part.toolCallId}`);
        if (input) input.delta = ""; // the call has the whole input
        break;
      }
      case "tool-result":
        return this.#replace(part);
      case "tool-input-end":
      case "finish-step":
      case "raw":
        return;
    }
    this.#parts.push(part);
  }

  #join(part: Extract<SdkPart, { type: "text-delta" | "reasoning-delta" | "tool-input-delta" }>): void {
    const key = `${part.type} ${part.id}`;
    const open = this.#open.get(key);
    if (!open) {
      const joined = { ...part };
      this.#open.set(key, joined);
      this.#parts.push(joined);
      return;
    }
    if (part.type === "tool-input-delta") open.delta += part.delta;
    else open.text += part.text;
    if (part.providerMetadata) open.providerMetadata = part.providerMetadata;
  }

  #replace(result: Extract<SdkPart, { type: "tool-result" }>): void {
    const { toolCallId, preliminary } = result;
    const place = this.#preliminary.get(toolCallId) ?? this.#parts.length;
    this.#parts[place] = result;
    if (preliminary) this.#preliminary.set(toolCallId, place);
    else this.#preliminary.delete(toolCallId);
  }

  get all(): readonly SdkPart[] {
    return this.#parts;
  }
}

/** An answer that was not streamed. */
interface WholeAnswer {
  readonly steps: readonly StepResult<ToolSet>[];
  readonly responseMessages: readonly ModelMessage[];
}

/** Returns the parts that the SDK would have streamed for an answer. */
export function toAnswerParts({ steps, responseMessages: [first] }: WholeAnswer): SdkPart[] {
  // Tools that were approved run before the first step, which does not have their results.
  const early = first?.role === "tool" ? first.content.flatMap(fromResult) : [];
  // The casts are safe: `toUIMessageStream` reads only fields that these parts have.
  return [
    ...early,
    ...steps.flatMap((step) => [{ type: "start-step" }, ...step.content.flatMap(fromContent)]),
  ] as never;
}

function fromContent(part: StepResult<ToolSet>["content"][number], index: number): object[] {
  const id = String(index);
  switch (part.type) {
    case "text":
    case "reasoning": {
      const { type, text, ...rest } = part; // the rest: metadata, and what later versions of the SDK add
      return [
        { type: `${type}-start`, id },
        { type: `${type}-delta`, id, text },
        { type: `${type}-end`, id, ...rest },
      ];
    }
    case "tool-approval-response": {
      const { toolCallId } = part.toolCall;
      return part.approved ? [part] : [part, { type: "tool-output-denied", toolCallId }];
    }
    default:
      return [part];
  }
}

function fromResult(part: object): object[] {
  const { type, toolCallId, output } = toObject(part);
  if (type !== "tool-result" || !isObject(output)) return [];
  const { type: kind, value } = output;
  if (kind === "execution-denied") return [{ type: "tool-output-denied", toolCallId }];
  if (kind === "error-text" || kind === "error-json") return [{ type: "tool-error", toolCallId, error: value }];
  return [{ type: "tool-result", toolCallId, output: value }];
}
