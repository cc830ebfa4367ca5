import { toLogger, type Logger } from "../core/log.ts";
import { currentScope } from "../core/scope.ts";
import { toEntry, type LogEntry } from "./record.ts";
import { createRedact } from "./redact.ts";
import { Ring, type RingLimits } from "./ring.ts";

export interface LogsOptions extends RingLimits {
  /** Where records go besides: the terminal, a file, a logger of the host's. */
  readonly outward: (entry: LogEntry, message: string, data: Readonly<Record<string, unknown>>) => void;
}

/** Everything that one server logs. */
export interface Logs {
  readonly logger: Logger;
  readonly ring: Ring;
  /** Hears each record once it is in the ring. Returns how to stop. */
  listen(listener: (entry: LogEntry) => void): () => void;
}

export function createLogs({ outward, ...limits }: LogsOptions): Logs {
  const ring = new Ring(limits);
  const redact = createRedact(process.env);
  const listeners = new Set<(entry: LogEntry) => void>();
  const logger = toLogger((level, message, given) => {
    const data = { ...currentScope(), ...given };
    const entry = toEntry({ seq: ring.next, at: Date.now(), level, message: String(message), data }, redact);
    ring.add(entry);
    outward(entry, message, data);
    for (const listener of listeners) listener(entry);
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
