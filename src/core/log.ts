export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
export type LogLevel = (typeof logLevels)[number];

/** Called as `logger.info("message", { some: "data" })`. Messages never contain an id; ids stand in the data. */
export type Logger = Record<LogLevel, (message: string, data?: Record<string, unknown>) => void>;

/** What a record may belong to. In the data of a record these keys, and `error`, become fields of its own. */
export const logIds = [
  "agentId",
  "workflowId",
  "executionId",
  "stepId",
  "userId",
  "conversationId",
  "requestId",
  "traceId",
  "spanId",
] as const;
export type LogIds = { readonly [K in (typeof logIds)[number]]?: string | undefined };

/** A logger of which each level does the same with its name. */
export function toLogger(write: (level: LogLevel, message: string, data?: Record<string, unknown>) => void): Logger {
  const entries = logLevels.map((level) => [level, write.bind(undefined, level)]);
  return Object.fromEntries(entries) as Logger; // one function for each of the levels
}

/** A logger that adds these to the data of every record. */
export function withData(logger: Logger, ids: Record<string, unknown>): Logger {
  return toLogger((level, message, data) => logger[level](message, { ...data, ...ids }));
}
