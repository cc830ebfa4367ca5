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

/** The time during which a repeated message is not logged. */
const quietMs = 10_000;
/** Max remembered messages. */
const maxQuiet = 100;

/** Returns a logger that logs a message at most once in 10 s. The next record has the number of those between as `repeated`. */
export function withoutRepeats(logger: Logger, now: () => number = () => performance.now()): Logger {
  /** The oldest first. */
  const recent = new Map<string, { readonly until: number; repeated: number }>();
  return toLogger((level, message, data) => {
    const key = `${level} ${message}`;
    const last = recent.get(key);
    if (last && now() < last.until) return void last.repeated++;
    recent.delete(key);
    recent.set(key, { until: now() + quietMs, repeated: 0 });
    if (recent.size > maxQuiet) recent.delete(recent.keys().next().value!);
    logger[level](message, last && last.repeated > 0 ? { ...data, repeated: last.repeated } : data);
  });
}

/**
 * The log of requests and executions, one record for each. It is part of the server log, at level `info` in `dev` and
 * `debug` in `start`.
 */
export interface Activity {
  /** False if its records have no reader: they need not be made. */
  isOn(): boolean;
  /**
   * Logs a record with the ids of the current scope, at `debug` if it is `quiet`. A record below `info` is passed to the
   * logger of the host, and not kept: it would push others out.
   */
  log(message: string, data: Record<string, unknown>, options?: { quiet?: boolean | undefined }): void;
}
