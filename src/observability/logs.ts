import { systemClock, type Clock } from "../core/clock.ts";
import { type Activity, type Logger, type LogLevel, toLogger } from "../core/log.ts";
import { currentScope, runOutOfScope } from "../core/scope.ts";
import { toEntry, type LogEntry } from "./record.ts";
import { createRedactor } from "./redact.ts";
import { Ring, type RingLimits } from "./ring.ts";

/** Called with the number of records that did not reach a reader or the output. */
export type OnDropped = (count: number) => void;

export interface LogsOptions extends RingLimits {
  /** @default the clock of the machine */
  readonly clock?: Clock | undefined;
  /** The destination of records besides the ring: the terminal, a file or the host's logger. */
  readonly output: (entry: LogEntry, message: string, data: Readonly<Record<string, unknown>> | undefined) => void;
  /** Called with the number of lost records. @default they are not counted */
  readonly onDropped?: OnDropped | undefined;
  /** The record level of requests and executions. @default "debug" */
  readonly activityLevel?: "info" | "debug" | undefined;
  /** Returns true if the output takes records below `info`. @default false */
  readonly takesDebug?: (() => boolean) | undefined;
}

/** The log of one server. */
export interface Logs {
  /** Never throws: a failure to log must not affect the caller. */
  readonly logger: Logger;
  readonly activity: Activity;
  readonly ring: Ring;
  readonly onDropped: OnDropped;
  /** Calls the listener after new records, once per turn of the event loop. Returns a function that removes it. */
  listen(listener: () => void): () => void;
}

export function createLogs({
  output,
  onDropped = () => {},
  clock = systemClock,
  activityLevel = "debug",
  takesDebug = () => false,
  ...limits
}: LogsOptions): Logs {
  const ring = new Ring(limits);
  const redact = createRedactor(process.env);
  const listeners = new Set<() => void>();
  let isWaking = false;
  function wake(): void {
    isWaking = false;
    for (const listener of listeners) listener();
  }

  function write(level: LogLevel, message: string, data: Record<string, unknown> | undefined, isKept: boolean): void {
    try {
      const logged = { seq: ring.next, at: clock.now(), level, message: String(message), data, ids: currentScope() };
      const entry = toEntry(logged, redact);
      if (isKept) ring.add(entry);
      output(entry, message, data);
    } catch {
      // A record that cannot be logged must not affect the caller.
      onDropped(1);
    }
    if (!isKept || isWaking || listeners.size === 0) return;
    isWaking = true;
    runOutOfScope(() => setImmediate(wake));
  }
  const activity: Activity = {
    isOn: () => activityLevel === "info" || takesDebug(),
    log(message, data, { quiet = false } = {}) {
      const level = quiet ? "debug" : activityLevel;
      if (level === "info" || takesDebug()) write(level, message, data, level === "info");
    },
  };
  return {
    logger: toLogger((level, message, data) => write(level, message, data, true)),
    activity,
    ring,
    onDropped,
    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
