import { currentScope, runInScope, type LogIds } from "./scope.ts";

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
/** The severity of a log record, lowest first: `trace`, `debug`, `info`, `warn`, `error`, `fatal`. */
export type LogLevel = (typeof logLevels)[number];

/**
 * A logger with one function per level, called as `logger.info("message", { some: "data" })`. The ids of a record
 * (request, execution, step …) come from the scope in which it is logged, not from its message.
 */
export type Logger = Record<LogLevel, (message: string, data?: Record<string, unknown>) => void>;

/** Creates a logger from one function that gets the level as its first argument. */
export function toLogger(write: (level: LogLevel, message: string, data?: Record<string, unknown>) => void): Logger {
  const entries = logLevels.map((level) => [level, write.bind(undefined, level)]);
  return Object.fromEntries(entries) as Logger; // it has one function for each level
}

/** Returns a logger that adds `more` to the data of every record. */
export function withData(logger: Logger, more: Record<string, unknown>): Logger {
  return toLogger((level, message, data) => logger[level](message, { ...data, ...more }));
}

/**
 * Returns a logger that adds these ids to every record. A record logged inside the same trace keeps the span id of the
 * current scope.
 */
export function withIds(logger: Logger, ids: LogIds): Logger {
  return toLogger((level, message, data) => {
    const scope = currentScope();
    const { spanId } = (scope?.traceId === ids.traceId && scope) || ids;
    runInScope({ ...scope, ...ids, spanId }, () => logger[level](message, data));
  });
}
