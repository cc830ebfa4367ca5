export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal";

/** Called as `logger.info("message", { some: "data" })`. Messages never contain an id; ids stand in the data. */
export type Logger = Record<LogLevel, (message: string, data?: Record<string, unknown>) => void>;

/** A logger that adds these to the data of every record. */
export function withData(logger: Logger, ids: Record<string, unknown>): Logger {
  const entries = Object.entries(logger).map(([level, write]) => [
    level,
    (message: string, data?: Record<string, unknown>) => write(message, { ...data, ...ids }),
  ]);
  return Object.fromEntries(entries) as Logger; // one function for each of the levels
}
