import type { LogLevel } from "../core/log.ts";
import { logIds, type LogIds } from "../core/scope.ts";
import { isHidden } from "./redact.ts";

/** What was logged, as it is kept: written once, filtered by its fields, sent as its text. */
export interface LogEntry {
  readonly seq: number;
  /** In milliseconds since 1970. */
  readonly at: number;
  readonly level: LogLevel;
  readonly ids: LogIds;
  /** The record as JSON. */
  readonly text: string;
  /** The length of that. */
  readonly bytes: number;
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
  readonly data: Readonly<Record<string, unknown>> | undefined;
  /** What it belongs to. Only we say that: data may be what a client sent. */
  readonly ids: LogIds | undefined;
}

/** `redact` takes out of each text what nobody may read. */
export function toEntry(logged: Logged, redact: (text: string) => string): LogEntry {
  const { seq, at, level } = logged;
  const { error, ...rest } = logged.data ?? {};
  const ids: Record<string, string> = {};
  for (const name of logIds) {
    const id = logged.ids?.[name];
    if (id !== undefined) ids[name] = id.slice(0, mostOfId);
  }
  const record: LogRecord = {
    seq,
    timestamp: new Date(at).toISOString(),
    level,
    message: redact(cut(logged.message)),
    ...ids,
    ...(Object.keys(rest).length > 0 && { data: toJson(rest, redact) }),
    ...(error !== undefined && { error: redact(cut(toErrorText(error))) }),
  };
  const text = JSON.stringify(record);
  return { seq, at, level, ids, text, bytes: Buffer.byteLength(text) };
}

const mostOfId = 256;
/** The longest message, error or data of a record. */
const mostLetters = 16_384;
const cut = (text: string): string => (text.length <= mostLetters ? text : `${text.slice(0, mostLetters)}…`);

/** An error may be its own cause, and may fail to say what it is. */
function toErrorText(error: unknown, depth = 0): string {
  try {
    if (!(error instanceof Error)) return typeof error === "string" ? error : (JSON.stringify(error) ?? String(error));
    const because =
      error.cause === undefined || depth === mostCauses ? "" : `\nbecause of ${toErrorText(error.cause, depth + 1)}`;
    return String(error.stack ?? error.message) + because;
  } catch {
    return "[an error that cannot be read]";
  }
}
const mostCauses = 4;

/** What JSON can hold of it, now: it may change later. */
function toJson(value: unknown, redact: (text: string) => string): unknown {
  try {
    const text = JSON.stringify(value, (name, inner: unknown) => {
      if (isHidden(name, inner)) return "[redacted]";
      if (typeof inner === "string") return redact(cut(inner));
      if (typeof inner === "bigint") return String(inner);
      return inner instanceof Error ? redact(cut(toErrorText(inner))) : inner;
    });
    return text.length <= mostLetters ? (JSON.parse(text) as unknown) : cut(text);
  } catch (error) {
    return `[not JSON: ${error instanceof Error ? error.message.split("\n", 1)[0] : "it cannot be read"}]`;
  }
}
