/** The first SIGINT or SIGTERM drains and closes the server. The second one exits at once. */
export function closeOnSignal(close: (signal: NodeJS.Signals) => Promise<void>, say: (line: string) => void): void {
  let closing = false;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (closing) process.exit(1);
      closing = true;
      say("shutting down … press Ctrl+C again to force");
      // Timers and pools that a project has left open must not keep the process alive.
      void close(signal).then(
        () => process.exit(0),
        (error: unknown) => {
          say(`shutdown failed: ${String(error)}`);
          process.exit(1);
        },
      );
    });
  }
}
