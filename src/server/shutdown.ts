/** The first SIGINT or SIGTERM lets what is open end; the second ends the process at once. */
export function closeOnSignal(close: () => Promise<void>, say: (line: string) => void): void {
  let closing = false;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (closing) process.exit(1);
      closing = true;
      say("closing; once more ends it at once");
      // What a project's own files left open (timers, pools) must not keep a closed server alive.
      void close().then(
        () => process.exit(0),
        (error: unknown) => {
          say(`closing failed: ${String(error)}`);
          process.exit(1);
        },
      );
    });
  }
}
