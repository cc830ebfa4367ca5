import { ConfigError } from "../config/error.ts";
import { toFrame } from "../config/frame.ts";
import type { UserError } from "../core/user-error.ts";
import { toVisible } from "../core/visible.ts";
import { colors } from "./colors.ts";
import { UsageError } from "./usage.ts";

/** What a script can tell apart. `agentserve --help` lists them. */
export const exitCodes = { failed: 1, usage: 2, suspended: 3 } as const;

export interface FailOptions {
  /** Whether the stack is shown. */
  readonly debug?: boolean | undefined;
  /** Whether the code that it is about is shown. */
  readonly frame?: boolean;
}

/** Says what is wrong and what to do about it; the exit code says so, too. */
export function fail(error: unknown, { debug, frame }: FailOptions = {}): void {
  const { message = String(error), hint, stack, cause } = (error ?? {}) as Partial<UserError>;
  const place = frame && error instanceof ConfigError ? error.place : undefined;
  writeError({ message, hint, frame: place && toFrame(place) });
  // What the user's own code threw says more than where we noticed.
  const trace = cause instanceof Error ? cause.stack : stack;
  if (debug && trace) process.stderr.write(`${colors.dim(trace)}\n`);
  process.exitCode = error instanceof UsageError ? exitCodes.usage : exitCodes.failed;
}

const mostLines = 20;
const longestLine = 2_500;

/** One line that says what is wrong, the code that it is about, one line that says what to do. */
export function writeError(error: { message: string; hint?: string | undefined; frame?: string | undefined }): void {
  const { message, hint, frame } = error;
  const lines = message.split("\n").slice(0, mostLines);
  const shown = lines.map((line) => toVisible(line, { most: longestLine })).join("\n      ");
  process.stderr.write(`${colors.red("error")} ${shown}\n`);
  if (frame) process.stderr.write(`${toVisible(frame, { allowed: "\n\t" })}\n`);
  if (hint) process.stderr.write(`${colors.dim("hint ")} ${toVisible(hint, { most: longestLine })}\n`);
}
