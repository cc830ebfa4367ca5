import { createConsola, type LogType } from "consola";
import type { Logger, LogLevel } from "../core/log.ts";

const levels: LogLevel[] = ["trace", "debug", "info", "warn", "error", "fatal"];

/** The logger of a server that was given none: consola, to the terminal. */
export function createLogger(): Logger {
  const consola = createConsola({ stdout: process.stderr });
  const write = (level: LogType, message: string, data?: Record<string, unknown>): void => {
    const { error, ...rest } = data ?? {};
    const details = [Object.keys(rest).length > 0 && rest, error].filter(Boolean);
    consola[level](message, ...details);
  };
  const entries = levels.map((level) => [level, write.bind(undefined, level)]);
  return Object.fromEntries(entries) as Logger; // one function for each of the levels
}
