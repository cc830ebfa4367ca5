import { maxMessages, maxPageBytes, windowSize } from "../contract/conversations.ts";

/** The fields by which rows are one message of the client. */
interface RowKind {
  readonly id?: string | null | undefined;
  readonly role: string;
  /** True if the row is older than format 10, and so has one model message. */
  readonly isOld: boolean;
}

/** Returns true if a row continues the message of the row before it. */
export function isContinued(row: RowKind, before: RowKind): boolean {
  if (!row.isOld || !before.isOld || row.role === "user" || before.role === "user") return false;
  return row.role === "tool" || (row.id != null && row.id === before.id);
}

/** The id that a client is shown for a message without an id. Rows of format 9 and before may have none. */
export const toMessageId = (number: number): string => `message-${number}`;
/** Returns the number of such a message. */
export const numberOf = (id: string | undefined): number | undefined => {
  const [, number] = /^message-(\d{1,15})$/.exec(id ?? "") ?? [];
  return number === undefined ? undefined : Number(number);
};

/**
 * The window rows of a turn. They are added from the last one back. The last one is always taken. Those that do not
 * fit into `maxBytes`, and all before them, are left out, and counted as far as the window would reach.
 */
export class MessageWindow<Row extends { readonly role: string }> {
  readonly #maxBytes: number;
  readonly #rows: Row[] = [];
  #count = 0;
  #bytes = 0;
  #hasUser = false;
  /** The number of model messages that were left out. */
  omitted = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Adds a row with a number of model messages, and their bytes. Returns false if the window is complete. */
  add(row: Row, count: number, bytes: number): boolean {
    this.#bytes += bytes;
    if (this.#rows.length === 0 || this.#bytes <= this.#maxBytes) this.#rows.push(row);
    else this.omitted += count;
    this.#count += count;
    this.#hasUser ||= row.role === "user";
    return !(this.#count >= windowSize && this.#hasUser) && this.#count < maxMessages;
  }

  /** The rows that were taken, in their order. */
  get rows(): Row[] {
    return this.#rows.toReversed();
  }
}

/** The rows of a message page. They are added from the last one back. */
export class MessagePage<Row extends RowKind> {
  readonly #limit: number;
  readonly #rows: Row[] = [];
  #messages = 0;
  #bytes = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds a row with the bytes of its text. Returns false, and does not add it, if the page is complete. */
  add(row: Row, bytes: number): boolean {
    const next = this.#rows.at(-1);
    this.#bytes += bytes;
    if (!next || !isContinued(next, row)) {
      if (this.#messages === this.#limit || (next && this.#bytes > maxPageBytes)) return false;
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
