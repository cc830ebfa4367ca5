/** What happened to the executions of all trees. */
export interface Tally {
  completed: number;
  error: number;
  cancelled: number;
  suspensions: number;
  external: number;
  wentBack: number;
  retried: number;
  forked: number;
  twoAtOnce: number;
  /** Waits that a test has ended: by time, by an event, by a resume that skips them. */
  timed: number;
  sent: number;
  skipped: number;
  /** Files that were cut and played to the end. */
  crashes: number;
  rows: number;
  events: number;
}

export const noTally = (): Tally => ({
  completed: 0,
  error: 0,
  cancelled: 0,
  suspensions: 0,
  external: 0,
  wentBack: 0,
  retried: 0,
  forked: 0,
  twoAtOnce: 0,
  timed: 0,
  sent: 0,
  skipped: 0,
  crashes: 0,
  rows: 0,
  events: 0,
});
