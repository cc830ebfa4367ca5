import type { ModelMessage, StepResult, TextStreamPart, ToolSet } from "ai";
import { isObject, toObject } from "../../core/json.ts";
import { JoinedText } from "./joined-text.ts";

/** A part of an answer, as the SDK streams it. */
export type SdkPart = TextStreamPart<ToolSet>;

/** Records the parts of a streamed answer. The deltas of a text are joined, and of a tool's results the last one counts. */
export class AnswerParts {
  readonly #parts: (SdkPart | OpenText)[] = [];
  /** The texts and tool inputs that have not ended, by kind and id. */
  readonly #open = new Map<string, OpenText>();
  /** The places of results that are not final, by tool call. */
  #preliminary: Map<string, number> | undefined;

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
        this.#open.get(`tool-input-delta ${part.toolCallId}`)?.clear(); // the call has the whole input
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

  #join(part: Delta): void {
    const key = `${part.type} ${part.id}`;
    let open = this.#open.get(key);
    if (!open) {
      open = new OpenText(part);
      this.#open.set(key, open);
      this.#parts.push(open);
    }
    open.add(part);
  }

  #replace(result: Extract<SdkPart, { type: "tool-result" }>): void {
    const { toolCallId, preliminary } = result;
    const place = this.#preliminary?.get(toolCallId) ?? this.#parts.length;
    this.#parts[place] = result;
    if (preliminary) (this.#preliminary ??= new Map()).set(toolCallId, place);
    else this.#preliminary?.delete(toolCallId);
  }

  get all(): readonly SdkPart[] {
    return this.#parts.map((part) => (part instanceof OpenText ? part.toPart() : part));
  }
}

type Delta = Extract<SdkPart, { type: "text-delta" | "reasoning-delta" | "tool-input-delta" }>;

/** The deltas of one text, joined. */
class OpenText {
  #part: Delta;
  #text = new JoinedText();

  constructor(first: Delta) {
    this.#part = first;
  }

  add(part: Delta): void {
    this.#text.add(part.type === "tool-input-delta" ? part.delta : part.text);
    if (part.providerMetadata) this.#part = part;
  }
  clear(): void {
    this.#text = new JoinedText();
  }
  toPart(): Delta {
    const text = String(this.#text);
    return this.#part.type === "tool-input-delta" ? { ...this.#part, delta: text } : { ...this.#part, text };
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
