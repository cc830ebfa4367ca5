import { toLogger, type Logger } from "../core/log.ts";
import { currentScope, runOutOfScope } from "../core/scope.ts";
import { toEntry, type LogEntry } from "./record.ts";
import { createRedactor } from "./redact.ts";
import { Ring, type RingLimits } from "./ring.ts";

export interface LogsOptions extends RingLimits {
  /** Where records go besides: the terminal, a file, a logger of the host's. */
  readonly output: (entry: LogEntry, message: string, data: Readonly<Record<string, unknown>> | undefined) => void;
}

/** Everything that one server logs. */
export interface Logs {
  /** Never throws: whoever logs has something else to do. */
  readonly logger: Logger;
  readonly ring: Ring;
  /** Called when there are new records in the ring, once for all that one turn of the event loop brings. Returns how to stop. */
  listen(listener: () => void): () => void;
}

export function createLogs({ output, ...limits }: LogsOptions): Logs {
  const ring = new Ring(limits);
  const redact = createRedactor(process.env);
  const listeners = new Set<() => void>();
  let isWaking = false;
  function wake(): void {
    isWaking = false;
    for (const listener of listeners) listener();
  }

  const logger = toLogger((level, message, data) => {
    try {
      const logged = { seq: ring.next, at: Date.now(), level, message: String(message), data, ids: currentScope() };
      const entry = toEntry(logged, redact);
      ring.add(entry);
      output(entry, message, data);
    } catch {
      // What cannot be logged must not stop what is being logged about.
    }
    if (isWaking || listeners.size === 0) return;
    isWaking = true;
    runOutOfScope(() => setImmediate(wake));
  });
  return {
    logger,
    ring,
    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
