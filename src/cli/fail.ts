import { ConfigError } from "../config/error.ts";
import { toFrame } from "../config/frame.ts";
import type { UserError } from "../core/user-error.ts";
import { toVisible, toVisibleJson } from "../core/terminal/visible.ts";
import { colors } from "./colors.ts";
import { UsageError } from "./usage.ts";

/** The exit codes for scripts, as listed by `agentserve --help`. */
export const exitCodes = { failed: 1, usage: 2, suspended: 3 } as const;

export interface FailOptions {
  /** True to print the stack. */
  readonly debug?: boolean | undefined;
  /** True to print the code around the error. */
  readonly frame?: boolean;
  /** True to print the error as a log record. */
  readonly json?: boolean | undefined;
}

/** Prints an error with its hint, and sets the exit code. */
export function fail(error: unknown, { debug, frame, json }: FailOptions = {}): void {
  const { message = String(error), hint, stack, cause } = (error ?? {}) as Partial<UserError>;
  const place = frame && error instanceof ConfigError ? error.place : undefined;
  process.exitCode = error instanceof UsageError ? exitCodes.usage : exitCodes.failed;
  if (json) return writeRecord({ message, hint });
  writeError({ message, hint, frame: place && toFrame(place) });
  // The stack of an error in the user's code is more useful than the stack of its wrapper.
  const trace = cause instanceof Error ? cause.stack : stack;
  if (debug && trace) process.stderr.write(`${colors.dim(toVisible(trace, { allowed: "\n\t" }))}\n`);
}

/** Prints an error like a record of the log, which exists only once the server is open. */
function writeRecord({ message, hint }: { message: string; hint?: string | undefined }): void {
  const record = { timestamp: new Date().toISOString(), level: "error", message, ...(hint && { data: { hint } }) };
  process.stderr.write(`${toVisibleJson(JSON.stringify(record))}\n`);
}

const maxLines = 20;
const longestLine = 2_500;

/** Prints the message, the code around the error, and the hint. */
export function writeError(error: { message: string; hint?: string | undefined; frame?: string | undefined }): void {
  const { message, hint, frame } = error;
  const lines = message.split("\n").slice(0, maxLines);
  const shown = lines.map((line) => toVisible(line, { max: longestLine })).join("\n      ");
  process.stderr.write(`${colors.red("error")} ${shown}\n`);
  if (frame) process.stderr.write(`${toVisible(frame, { allowed: "\n\t" })}\n`);
  if (hint) process.stderr.write(`${colors.dim("hint ")} ${toVisible(hint, { max: longestLine })}\n`);
}
