/**
 * Ignores write errors on stdout and stderr. The reader may exit first (`agentserve routes | head -1`), and then every
 * write fails. A server would log each error, which is another write that fails.
 */
export function ignoreLostReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}

/** Exits once all output is written, even if the project keeps timers or connections open. */
export async function leave(): Promise<never> {
  for (const stream of [process.stdout, process.stderr]) await new Promise((done) => stream.write("", done));
  process.exit();
}
