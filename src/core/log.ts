import { currentScope, runInScope, type LogIds } from "./scope.ts";

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
export type LogLevel = (typeof logLevels)[number];

/** Called as `logger.info("message", { some: "data" })`. Messages never contain an id; what a record belongs to is its scope. */
export type Logger = Record<LogLevel, (message: string, data?: Record<string, unknown>) => void>;

/** A logger of which each level does the same with its name. */
export function toLogger(write: (level: LogLevel, message: string, data?: Record<string, unknown>) => void): Logger {
  const entries = logLevels.map((level) => [level, write.bind(undefined, level)]);
  return Object.fromEntries(entries) as Logger; // one function for each of the levels
}

/** A logger that adds these to the data of every record. */
export function withData(logger: Logger, more: Record<string, unknown>): Logger {
  return toLogger((level, message, data) => logger[level](message, { ...data, ...more }));
}

/** A logger whose records belong to these, wherever it is called; inside of their trace, to the span that calls it. */
export function withIds(logger: Logger, ids: LogIds): Logger {
  return toLogger((level, message, data) => {
    const scope = currentScope();
    const { spanId } = (scope?.traceId === ids.traceId && scope) || ids;
    runInScope({ ...scope, ...ids, spanId }, () => logger[level](message, data));
  });
}
