/** The stored state of schedules. It is apart from their executions, which are removed some time after their end. */
export interface ScheduleStore {
  all(): Promise<readonly StoredSchedule[]>;
  find(id: string): Promise<StoredSchedule | undefined>;
  /** Changes a schedule, or begins to store it. Durable when it resolves. */
  change(id: string, change: ScheduleChange): Promise<StoredSchedule>;
}

export interface StoredSchedule {
  readonly id: string;
  /** The times for which `doneAt` counts. Empty for a schedule that was removed from the config. */
  readonly times: string;
  /** Every tick up to this time is done: it began an execution, or never will. */
  readonly doneAt: number;
  /** The last tick that came. */
  readonly lastAt?: number | undefined;
  /** The tick that waits until no execution of the schedule is left. */
  readonly heldAt?: number | undefined;
  /** The ticks that were missed and are to be made up, the oldest first. */
  readonly missed?: readonly number[] | undefined;
  readonly isPaused: boolean;
}

/** A change of some fields; the others stay. */
export interface ScheduleChange extends Partial<Pick<StoredSchedule, "times" | "doneAt" | "missed" | "isPaused">> {
  /** A tick is done, or held. */
  readonly tick?: { readonly at: number; readonly isHeld: boolean } | undefined;
  /** True to forget the tick that is held. */
  readonly dropsHeld?: boolean | undefined;
}

/** Applies a change. A tick never moves `doneAt` back, and an old one is not held again: another replica may be late. */
export function changeSchedule(
  id: string,
  stored: StoredSchedule | undefined,
  { tick, dropsHeld, ...fields }: ScheduleChange,
): StoredSchedule {
  const before: StoredSchedule = { id, times: "", doneAt: 0, isPaused: false, ...stored, ...fields };
  const { doneAt, lastAt, heldAt, missed = [] } = before;
  if (!tick) return { ...before, heldAt: dropsHeld ? undefined : heldAt };
  const { at, isHeld } = tick;
  const kept = heldAt === at ? undefined : heldAt;
  return {
    ...before,
    doneAt: Math.max(doneAt, at),
    lastAt: Math.max(lastAt ?? at, at),
    heldAt: isHeld && at > doneAt ? at : isHeld ? heldAt : kept,
    missed: missed.filter((other) => other !== at),
  };
}
