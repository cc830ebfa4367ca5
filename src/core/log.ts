export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal";

/** Called as `logger.info("message", { some: "data" })`. Messages never contain an id; ids stand in the data. */
export type Logger = Record<LogLevel, (message: string, data?: Record<string, unknown>) => void>;
