import { cut } from "../core/cut.ts";
import { maxOfMessage } from "../core/error.ts";
import type { LogLevel } from "../core/log.ts";
import { logIds, type LogIds } from "../core/scope.ts";
import type { Redactor } from "./redact.ts";

/** A stored log record. It is serialized once, filtered by its fields and sent as its text. */
export interface LogEntry {
  readonly seq: number;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly level: LogLevel;
  readonly ids: LogIds;
  /** The record as JSON. */
  readonly text: string;
  /** The size of `text` in UTF-8. */
  readonly bytes: number;
}

/** A record as its readers see it. */
export interface LogRecord extends LogIds {
  readonly seq: number;
  readonly timestamp: string;
  readonly level: LogLevel;
  readonly message: string;
  readonly data?: unknown;
  readonly error?: string;
}

export interface LogCall {
  readonly seq: number;
  readonly at: number;
  readonly level: LogLevel;
  readonly message: string;
  readonly data: Readonly<Record<string, unknown>> | undefined;
  /** The ids of the scope. They are never taken from `data`, which may come from a client. */
  readonly ids: LogIds | undefined;
}

export function toEntry(logged: LogCall, redact: Redactor): LogEntry {
  const { seq, at, level } = logged;
  const ids: Record<string, string> = {};
  for (const name of logIds) {
    const id = logged.ids?.[name];
    if (id !== undefined) ids[name] = id.slice(0, maxOfId);
  }
  const timestamp = new Date(at).toISOString();
  const message = toText(logged.message, redact);
  const record: LogRecord = { seq, timestamp, level, message, ...ids, ...toDetails(logged.data, redact) };
  const text = JSON.stringify(record);
  return { seq, at, level, ids, text, bytes: Buffer.byteLength(text) };
}

function toDetails(given: LogCall["data"], redact: Redactor): Pick<LogRecord, "data" | "error"> {
  if (!given) return {};
  try {
    const { error, ...rest } = given;
    return {
      ...(Object.keys(rest).length > 0 && { data: toJson(rest, redact) }),
      ...(error !== undefined && { error: toText(toErrorText(error, redact), redact) }),
    };
  } catch (error) {
    return { data: unreadable(error) };
  }
}

const maxOfId = 256;
/** Max characters of a record's message, error or data. */
const maxLetters = 16_384;
/** Max characters of a secret that crosses the end of a cut text. */
const secretRoom = 8_192;
/** Redacts, then cuts: no part of a secret that crosses the end may remain. */
const toText = (text: string, redact: Redactor): string =>
  cut(redact.text(text.slice(0, maxLetters + secretRoom)), maxLetters);

/** Formats an error. An error may be its own cause, or throw when it is read. */
function toErrorText(error: unknown, redact: Redactor, depth = 0): string {
  try {
    if (!(error instanceof Error))
      return typeof error === "string" ? error : (JSON.stringify(error, redact.value) ?? String(error));
    const isLast = error.cause === undefined || depth === maxCauses;
    const because = isLast ? "" : `\ncaused by: ${toErrorText(error.cause, redact, depth + 1)}`;
    return toStack(error, redact) + because;
  } catch {
    return "[unreadable error]";
  }
}
const maxCauses = 4;

/** Returns the stack. A long message is cut, so that the frames behind it remain. */
function toStack({ stack, message }: Error, redact: Redactor): string {
  if (stack === undefined) return message;
  if (message.length <= maxOfMessage) return stack;
  const shown = cut(redact.text(message.slice(0, maxOfMessage + secretRoom)), maxOfMessage);
  return stack.replace(message, () => shown);
}

/** Returns a JSON copy of a value, because the value may change later. */
function toJson(value: unknown, redact: Redactor): unknown {
  try {
    const text = JSON.stringify(value, (name, inner: unknown) => {
      if (typeof inner === "bigint") return String(inner);
      if (inner instanceof Error) return toText(toErrorText(inner, redact), redact);
      const left = redact.value(name, typeof inner === "string" ? inner.slice(0, maxLetters + secretRoom) : inner);
      return typeof left === "string" ? cut(left, maxLetters) : left;
    });
    return text.length <= maxLetters ? (JSON.parse(text) as unknown) : cut(text, maxLetters);
  } catch (error) {
    return unreadable(error);
  }
}

const unreadable = (error: unknown): string =>
  `[not JSON: ${error instanceof Error ? error.message.split("\n", 1)[0] : "cannot be read"}]`;
