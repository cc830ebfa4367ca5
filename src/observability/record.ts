import { logIds, type LogIds, type LogLevel } from "../core/log.ts";

/** What was logged, as it is kept: written once, filtered by its fields, sent as its text. */
export interface LogEntry {
  readonly seq: number;
  /** In milliseconds since 1970. */
  readonly at: number;
  readonly level: LogLevel;
  readonly ids: LogIds;
  /** The record as JSON. */
  readonly text: string;
}

/** A record as readers get it. */
export interface LogRecord extends LogIds {
  readonly seq: number;
  readonly timestamp: string;
  readonly level: LogLevel;
  readonly message: string;
  readonly data?: unknown;
  readonly error?: string;
}

export interface Logged {
  readonly seq: number;
  readonly at: number;
  readonly level: LogLevel;
  readonly message: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** `redact` takes out what nobody may read, from the whole text at once. */
export function toEntry({ seq, at, level, message, data }: Logged, redact: (text: string) => string): LogEntry {
  const { error, ...rest }: Record<string, unknown> = data;
  const ids: Record<string, string> = {};
  for (const name of logIds) {
    if (typeof rest[name] === "string") ids[name] = rest[name];
    delete rest[name];
  }
  const timestamp = new Date(at).toISOString();
  const record: LogRecord = {
    seq,
    timestamp,
    level,
    message: cut(message),
    ...ids,
    ...(Object.keys(rest).length > 0 && { data: toJson(rest) }),
    ...(error !== undefined && { error: cut(toErrorText(error)) }),
  };
  return { seq, at, level, ids, text: redact(JSON.stringify(record)) };
}

/** The longest message, error or data of a record. */
const mostLetters = 16_384;
const cut = (text: string): string => (text.length <= mostLetters ? text : `${text.slice(0, mostLetters)}…`);

function toErrorText(error: unknown): string {
  if (!(error instanceof Error)) return typeof error === "string" ? error : String(JSON.stringify(toJson(error)));
  const because = error.cause === undefined ? "" : `\nbecause of ${toErrorText(error.cause)}`;
  return (error.stack ?? error.message) + because;
}

/** What JSON can hold of it, now: it may change later. */
function toJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value, (_, inner: unknown) => {
      if (typeof inner === "bigint") return String(inner);
      return inner instanceof Error ? cut(toErrorText(inner)) : inner;
    });
    return text === undefined || text.length <= mostLetters ? (JSON.parse(text ?? "null") as unknown) : cut(text);
  } catch (error) {
    return `[not JSON: ${error instanceof Error ? error.message.split("\n", 1)[0] : "it cannot be read"}]`;
  }
}
