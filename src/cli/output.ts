/**
 * Whoever reads the output may leave before the command does (`agentserve routes | head -1`). Each line would be an error
 * then; in a server, one that is logged, on a line of its own.
 */
export function ignoreLostReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}

/** Ends the process once all is written, whatever a project's files keep open. */
export async function leave(): Promise<never> {
  for (const stream of [process.stdout, process.stderr]) await new Promise((done) => stream.write("", done));
  process.exit();
}
