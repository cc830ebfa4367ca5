import { systemClock, type Clock } from "../core/clock.ts";
import { toLogger, type Logger } from "../core/log.ts";
import { currentScope, runOutOfScope } from "../core/scope.ts";
import { toEntry, type LogEntry } from "./record.ts";
import { createRedactor } from "./redact.ts";
import { Ring, type RingLimits } from "./ring.ts";

/** Called with the number of records that a reader did not get, or that could not be written. */
export type OnDropped = (count: number) => void;

export interface LogsOptions extends RingLimits {
  /** @default the clock of the machine */
  readonly clock?: Clock | undefined;
  /** The destination of records besides the ring: the terminal, a file or the host's logger. */
  readonly output: (entry: LogEntry, message: string, data: Readonly<Record<string, unknown>> | undefined) => void;
  /** Called with the number of records that are lost. @default they are not counted */
  readonly onDropped?: OnDropped | undefined;
}

/** The log of one server. */
export interface Logs {
  /** Never throws: a failure to log must not affect the caller. */
  readonly logger: Logger;
  readonly ring: Ring;
  readonly onDropped: OnDropped;
  /** Calls the listener after new records, once per turn of the event loop. Returns a function that removes it. */
  listen(listener: () => void): () => void;
}

export function createLogs({ output, onDropped = () => {}, clock = systemClock, ...limits }: LogsOptions): Logs {
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
      const logged = { seq: ring.next, at: clock.now(), level, message: String(message), data, ids: currentScope() };
      const entry = toEntry(logged, redact);
      ring.add(entry);
      output(entry, message, data);
    } catch {
      // A record that cannot be logged must not affect the caller.
      onDropped(1);
    }
    if (isWaking || listeners.size === 0) return;
    isWaking = true;
    runOutOfScope(() => setImmediate(wake));
  });
  return {
    logger,
    ring,
    onDropped,
    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
