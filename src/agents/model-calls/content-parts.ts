import type { LanguageModelV4Content, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { attempt } from "../../core/attempt.ts";
import { JoinedText } from "../messages/joined-text.ts";
import { cutText } from "./shown-value.ts";

/** A text of an answer that arrives in pieces. */
interface OpenText {
  readonly type: "text" | "reasoning";
  readonly text: JoinedText;
  length: number;
  isCut: boolean;
}

/** Max characters of a text that are kept. `ShownValues` cuts the rest. */
const maxLength = 65_536;

/** The contents of a model answer. The pieces of a stream are joined. */
export class ContentParts {
  readonly #parts: (OpenText | LanguageModelV4Content)[] = [];
  /** The texts that are being streamed, by type and id. */
  readonly #open = new Map<string, OpenText>();

  /** Adds a part of a stream. Parts without content, such as the input of a tool as it is written, are left out. */
  add(part: LanguageModelV4StreamPart): void {
    if (part.type === "text-start") this.#begin("text", part.id);
    else if (part.type === "reasoning-start") this.#begin("reasoning", part.id);
    else if (part.type === "text-delta") this.#append("text", part.id, part.delta);
    else if (part.type === "reasoning-delta") this.#append("reasoning", part.id, part.delta);
    else if (isContent(part)) this.#parts.push(part);
  }

  addAll(contents: readonly LanguageModelV4Content[]): void {
    this.#parts.push(...contents);
  }

  #begin(type: OpenText["type"], id: string): OpenText {
    const opened: OpenText = { type, text: new JoinedText(), length: 0, isCut: false };
    this.#open.set(`${type} ${id}`, opened);
    this.#parts.push(opened);
    return opened;
  }

  #append(type: OpenText["type"], id: string, delta: string): void {
    const opened = this.#open.get(`${type} ${id}`) ?? this.#begin(type, id);
    const piece = delta.slice(0, maxLength - opened.length);
    opened.isCut ||= piece.length < delta.length;
    opened.length += piece.length;
    if (piece !== "") opened.text.add(piece);
  }

  all(): unknown[] {
    return this.#parts.map((part) => {
      if (part.type === "tool-call")
        return { ...part, input: attempt(() => JSON.parse(part.input) as unknown) ?? part.input };
      if (!("isCut" in part)) return part;
      const text = cutText(String(part.text));
      return { type: part.type, text, ...((part.isCut || text.length < part.length) && { truncated: true }) };
    });
  }
}

const isContent = (
  part: LanguageModelV4StreamPart,
): part is Extract<LanguageModelV4StreamPart, LanguageModelV4Content> => contentTypes.has(part.type);
const contentTypes: ReadonlySet<string> = new Set<LanguageModelV4Content["type"]>([
  "custom",
  "file",
  "reasoning-file",
  "source",
  "tool-approval-request",
  "tool-call",
  "tool-result",
]);
