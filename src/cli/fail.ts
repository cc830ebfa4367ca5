import { colors } from "consola/utils";

/** One line that says what is wrong, one that says what to do, and a stack only for those who asked. */
export function fail(error: unknown, debug: boolean): void {
  const { message, hint, stack } = error as { message?: string; hint?: string; stack?: string };
  process.stderr.write(`${colors.red("error")} ${message ?? String(error)}\n`);
  if (hint) process.stderr.write(`${colors.dim("hint ")} ${hint}\n`);
  if (debug && stack) process.stderr.write(`${colors.dim(stack)}\n`);
  process.exitCode = 1;
}
