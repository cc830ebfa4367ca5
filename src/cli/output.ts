import { toVisibleJson } from "../core/terminal/visible.ts";
import { colors } from "./colors.ts";

/**
 * Ignores write errors on stdout and stderr. The reader may exit first (`agentserve routes | head -1`), and then every write
 * fails. A server would log each error: another failed write.
 */
export function ignoreLostReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}

/** Exits once all output is written, even if the project keeps timers or connections open. */
export async function leave(): Promise<never> {
  for (const stream of [process.stdout, process.stderr]) await new Promise((done) => stream.write("", done));
  process.exit();
}

export const print = (line: string): void => void process.stdout.write(`${line}\n`);
export const printJson = (value: unknown): void => print(toVisibleJson(JSON.stringify(value, null, 2)));
/** Prints a line for a person. stdout has the result only. */
export const printNote = (line: string): void => void process.stderr.write(`${colors.dim(line)}\n`);
