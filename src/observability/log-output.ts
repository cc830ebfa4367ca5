import { logLevels, type Logger, type LogLevel } from "../core/log.ts";
import { toVisibleJson } from "../core/terminal/visible.ts";
import type { LogsOptions, OnDropped } from "./logs.ts";
import type { LogEntry, LogRecord } from "./record.ts";
import { toTerminalLines, type TerminalOptions } from "./terminal/terminal.ts";

export type LogOutput = LogsOptions["output"];

/** A logger of the application: pino, winston, consola, or any logger with the same methods. */
export interface HostLogger {
  info(...args: never[]): unknown;
  warn(...args: never[]): unknown;
  error(...args: never[]): unknown;
}

const isShown = (level: LogLevel): boolean => logLevels.indexOf(level) >= logLevels.indexOf("info");

interface OutputOptions extends TerminalOptions {
  /** True for one JSON record per line, even in a terminal. */
  readonly json?: boolean | undefined;
  readonly onDropped?: OnDropped | undefined;
}

/** Writes to stderr: formatted in a terminal, otherwise one JSON record per line. Omits records below `info`. */
export function toTerminal({ json, onDropped, ...options }: OutputOptions = {}): LogOutput {
  // One callback for all records: most are written before it is called.
  const written = (error: unknown): void => void (error && onDropped?.(1));
  if (json || !process.stderr.isTTY) {
    return ({ level, text }) => void (isShown(level) && process.stderr.write(`${toVisibleJson(text)}\n`, written));
  }
  return (entry, _, data) => {
    if (!isShown(entry.level)) return;
    const columns = process.stderr.columns || 80;
    const lines = toTerminalLines(entry, { error: data?.["error"], columns }, options);
    process.stderr.write(`${lines.join("\n")}\n`, written);
  };
}

export function toHost(logger: HostLogger, onDropped: OnDropped = () => {}): LogOutput {
  // The cast gives access to the optional levels, which are checked below.
  const levels = logger as unknown as Record<string, ((...args: unknown[]) => unknown) | undefined>;
  const isPino = typeof levels["bindings"] === "function"; // only pino takes the data first
  const nearest: Record<LogLevel, string[]> = {
    trace: ["trace", "debug", "verbose"],
    debug: ["debug", "verbose"],
    info: ["info"],
    warn: ["warn"],
    error: ["error"],
    fatal: ["fatal", "error"],
  };
  return (entry) => {
    const name = nearest[entry.level].find((level) => typeof levels[level] === "function");
    if (!name) return;
    const { message, ...rest } = toRest(entry);
    const written = isPino ? levels[name]?.(rest, message) : levels[name]?.(message, rest);
    // An async logger may reject. There is no other place to report that.
    if (written instanceof Promise) written.catch(() => onDropped(1));
  };
}

/** Passes the original message and data to a logger. */
export function toPlain(logger: Logger): LogOutput {
  return ({ level, ids }, message, data) => {
    const all = { ...data, ...ids };
    logger[level](message, Object.keys(all).length > 0 ? all : undefined);
  };
}

/** Returns a record without the fields that loggers add themselves. */
function toRest({ text }: LogEntry): Omit<LogRecord, "seq" | "timestamp" | "level"> {
  const { seq: _seq, timestamp: _timestamp, level: _level, ...rest } = JSON.parse(text) as LogRecord;
  return rest;
}
