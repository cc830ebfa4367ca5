export interface ShutdownReport {
  shuttingDown(): void;
  shutdownFailed(error: unknown): void;
}

/** The first SIGINT or SIGTERM drains and closes the server. The second one exits at once. */
export function closeOnSignal(close: (signal: NodeJS.Signals) => Promise<void>, report: ShutdownReport): void {
  let closing = false;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (closing) process.exit(1);
      closing = true;
      report.shuttingDown();
      // Timers and pools that a project leaves open must not keep the process alive.
      void close(signal).then(
        () => process.exit(0),
        (error: unknown) => {
          report.shutdownFailed(error);
          process.exit(1);
        },
      );
    });
  }
}
