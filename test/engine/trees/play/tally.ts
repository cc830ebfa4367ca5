/** Counts of what happened to the executions of all trees. */
export type Tally = ReturnType<typeof noTally>;

export const noTally = () => ({
  completed: 0,
  error: 0,
  cancelled: 0,
  suspensions: 0,
  external: 0,
  wentBack: 0,
  retried: 0,
  forked: 0,
  twoAtOnce: 0,
  /** Waits that a test has ended: by time, by an event, by a resume that skips them. */
  timed: 0,
  sent: 0,
  skipped: 0,
  /** Files that were cut and played to the end. */
  crashes: 0,
  rows: 0,
  events: 0,
});
