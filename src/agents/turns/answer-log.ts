import { clientLeft, type ServeError } from "../../core/error.ts";
import type { StreamPart } from "../call/answers/answer.ts";

type Delta = Extract<StreamPart, { type: "text-delta" | "reasoning-delta" | "tool-input-delta" }>;
/** One part, or consecutive deltas of one text: the first of them, and all texts. */
type Entry =
  | { readonly part: Exclude<StreamPart, Delta>; readonly texts?: undefined }
  | { readonly part: Delta; texts: string[] };
interface ReadOptions {
  /** False for other processes, which have readers of their own. @default true */
  readonly isReader?: boolean;
  /** Called when the reader disconnects or is done. */
  readonly onLeave?: (() => void) | undefined;
}
/** The position of a reader: an entry, and the number of its texts that were read. */
interface Cursor extends ReadOptions {
  entry: number;
  text: number;
  /** Resolves the wait for the next change. */
  wake?: (() => void) | undefined;
}

/**
 * The parts of one answer, for any number of readers. A reader may start at any time.
 *
 * G1. Every reader gets all parts from the first one on, in the same order. A reader has a cursor and no buffer: a slow one gets
 *     many deltas as one.
 * G2. The log holds the answer once. Its size is bounded by `limits.executionBytes`: a longer turn fails.
 * G3. A failure before the first part is thrown to readers. A later one is the last part. A reader that disconnects before the
 *     first part gets a 499.
 */
export class AnswerLog {
  readonly #entries: Entry[] = [];
  readonly #cursors = new Set<Cursor>();
  #isOver = false;
  #failure: { readonly error: unknown } | undefined;

  /** The number of readers. */
  get readers(): number {
    return [...this.#cursors].filter(({ isReader = true }) => isReader).length;
  }
  get hasParts(): boolean {
    return this.#entries.length > 0;
  }
  get isOver(): boolean {
    return this.#isOver;
  }

  add(part: StreamPart): void {
    const last = this.#entries.at(-1);
    if (isDelta(part) && last?.texts && isSameText(last.part, part)) {
      last.texts.push(textOf(part));
      this.#join(maxApart);
    } else {
      this.#join(2);
      this.#entries.push(isDelta(part) ? { part, texts: [textOf(part)] } : { part });
    }
    this.#wake();
  }
  /** Ends the log. A failure is thrown to readers without a part. */
  end(failure?: { readonly error: unknown }): void {
    this.#failure ??= failure;
    this.#isOver = true;
    this.#wake();
  }

  /** Ends the log with an error, which is thrown if there is no part yet, and else the last part. */
  fail(error: ServeError): void {
    if (this.#isOver) return; // it has the whole answer
    if (this.hasParts) this.add({ type: "error", error });
    this.end(this.hasParts ? undefined : { error });
  }

  /** Joins the texts of the last entry that every reader has, if there are at least `min` of them. */
  #join(min: number): void {
    const index = this.#entries.length - 1;
    const last = this.#entries[index];
    if (!last?.texts || last.texts.length < min) return;
    let read = last.texts.length;
    for (const { entry, text } of this.#cursors) read = Math.min(read, entry < index ? 0 : text);
    if (read < min) return;
    const [first = "", ...rest] = last.texts.slice(0, read);
    // The first one may be long, and is not copied. A new array: an old one would keep its size.
    last.texts = [first + rest.join(""), ...last.texts.slice(read)];
    for (const cursor of this.#cursors) cursor.text -= read - 1;
  }

  #wake(): void {
    for (const { wake } of this.#cursors) wake?.();
  }

  /** Reads the log from its beginning to its end. Counts as a reader from the call on, unless `isReader` is false. */
  read(signal: AbortSignal, options: ReadOptions = {}): AsyncGenerator<StreamPart> {
    const cursor: Cursor = { ...options, entry: 0, text: 0 };
    this.#cursors.add(cursor);
    return this.#read(cursor, signal);
  }

  async *#read(cursor: Cursor, signal: AbortSignal): AsyncGenerator<StreamPart> {
    const leave = (): void => cursor.wake?.();
    signal.addEventListener("abort", leave, { once: true });
    try {
      while (!signal.aborted) {
        const next = this.#take(cursor);
        if (next) yield next;
        else if (this.#isOver) break;
        else await this.#change(cursor);
      }
      if (cursor.entry > 0 || cursor.text > 0) return;
      if (signal.aborted) throw clientLeft();
      if (this.#failure) throw this.#failure.error;
    } finally {
      signal.removeEventListener("abort", leave);
      this.#cursors.delete(cursor);
      cursor.onLeave?.();
    }
  }

  #change(cursor: Cursor): Promise<void> {
    this.#join(maxApart);
    return new Promise((resolve) => (cursor.wake = resolve));
  }

  #take(cursor: Cursor): StreamPart | undefined {
    const entry = this.#entries[cursor.entry];
    if (!entry) return undefined;
    const { part, texts } = entry;
    if (!texts) {
      cursor.entry++;
      return part;
    }
    if (cursor.text < texts.length) {
      const isLate = texts.length - cursor.text > maxPending;
      const end = isLate ? texts.length : cursor.text + 1;
      const text = texts.slice(cursor.text, end).join("");
      cursor.text = end;
      return withText(part, text);
    }
    if (cursor.entry + 1 >= this.#entries.length) return undefined;
    cursor.entry++;
    cursor.text = 0;
    return this.#take(cursor);
  }
}

/** Max waiting deltas of one text that a reader gets one by one. Beyond it, it gets them as one. */
const maxPending = 100;
/** Max texts of an entry that are not joined, although every reader has them. */
const maxApart = 16;

const isDelta = (part: StreamPart): part is Delta =>
  part.type === "text-delta" || part.type === "reasoning-delta" || part.type === "tool-input-delta";
const textOf = (part: Delta): string => (part.type === "tool-input-delta" ? part.delta : part.text);
const withText = (part: Delta, text: string): Delta =>
  part.type === "tool-input-delta" ? { ...part, delta: text } : { ...part, text };
const isSameText = (one: Delta, other: Delta): boolean =>
  one.type === other.type &&
  one.id === other.id &&
  one.providerMetadata === undefined &&
  other.providerMetadata === undefined;
