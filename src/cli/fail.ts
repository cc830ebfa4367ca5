import { colors } from "consola/utils";
import { ConfigError } from "../config/error.ts";
import { toFrame } from "../config/frame.ts";

/** What a script can tell apart. `agentserve --help` lists them. */
export const exitCodes = { failed: 1, usage: 2, suspended: 3 } as const;

export interface FailOptions {
  readonly exitCode?: number;
  /** Whether the stack is shown. */
  readonly debug?: boolean | undefined;
  /** Whether the code that it is about is shown. */
  readonly frame?: boolean;
}

/** Says what is wrong and what to do about it; the exit code says so, too. */
export function fail(error: unknown, { exitCode = exitCodes.failed, debug, frame }: FailOptions = {}): void {
  const { message = String(error), hint, stack } = error as { message?: string; hint?: string; stack?: string };
  const place = frame && error instanceof ConfigError ? error.place : undefined;
  writeError({ message, hint, frame: place && toFrame(place) });
  if (debug && stack) process.stderr.write(`${colors.dim(stack)}\n`);
  process.exitCode = exitCode;
}

/** One line that says what is wrong, the code that it is about, one line that says what to do. */
export function writeError(error: { message: string; hint?: string | undefined; frame?: string | undefined }): void {
  const { message, hint, frame } = error;
  process.stderr.write(`${colors.red("error")} ${message}\n`);
  if (frame) process.stderr.write(`${frame}\n`);
  if (hint) process.stderr.write(`${colors.dim("hint ")} ${hint}\n`);
}
