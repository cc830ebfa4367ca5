import { maxBytes, maxMessages, maxPageBytes, windowSize } from "./conversations.ts";

/** The fields by which rows are one message of the client. */
interface RowKind {
  readonly id?: string | null | undefined;
  readonly role: string;
  /** Whether the row is older than format 10, and so has one model message. */
  readonly isOld: boolean;
}

/** Returns true if a row continues the message of the row before it. */
export function isContinued(row: RowKind, before: RowKind): boolean {
  if (!row.isOld || !before.isOld || row.role === "user" || before.role === "user") return false;
  return row.role === "tool" || (row.id != null && row.id === before.id);
}

/** The rows of the window of a turn. They are added from the last one back. */
export class HistoryWindow<Row extends { readonly role: string }> {
  readonly #rows: Row[] = [];
  #count = 0;
  #length = 0;
  #hasUser = false;

  /** Adds a row with a number of model messages, and their length. Returns false if the window is complete. */
  add(row: Row, count: number, length: number): boolean {
    this.#length += length;
    if (this.#rows.length > 0 && this.#length > maxBytes) return false;
    this.#rows.push(row);
    this.#count += count;
    this.#hasUser ||= row.role === "user";
    return !(this.#count >= windowSize && this.#hasUser) && this.#count < maxMessages;
  }

  /** The rows in their order. */
  get rows(): Row[] {
    return this.#rows.toReversed();
  }
}

/** The rows of a page of messages. They are added from the last one back. */
export class MessagePage<Row extends RowKind> {
  readonly #limit: number;
  readonly #rows: Row[] = [];
  #messages = 0;
  #length = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds a row with the length of its text. Returns false, and does not add it, if the page is complete. */
  add(row: Row, length: number): boolean {
    const next = this.#rows.at(-1);
    this.#length += length;
    if (!next || !isContinued(next, row)) {
      if (this.#messages === this.#limit || (next && this.#length > maxPageBytes)) return false;
      this.#messages++;
    }
    this.#rows.push(row);
    return true;
  }

  /** The rows in their order. */
  get rows(): Row[] {
    return this.#rows.toReversed();
  }
}
