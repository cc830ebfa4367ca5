/** The numbers of a workflow. They only grow. */
export interface WorkflowCounts {
  started: number;
  /** The published transitions by their new status. A resume leads to `running`. */
  readonly transitions: Record<"running" | "suspended" | "completed" | "error" | "cancelled", number>;
  /** The attempts of steps by outcome. The result of an `aborted` one was no longer needed. */
  readonly attempts: Record<"success" | "error" | "suspended" | "aborted", number>;
}
/** The numbers of an agent. They only grow. */
export interface AgentCounts {
  readonly calls: Record<"success" | "error" | "aborted", number>;
  inputTokens: number;
  outputTokens: number;
  toolErrors: number;
}

/** The distribution of durations. */
export interface Durations {
  observe(seconds: number): void;
}

/**
 * The numbers of one server. They are added to in place, which costs some nanoseconds, and become text only when they
 * are read.
 */
export interface Metrics {
  /** Returns the numbers of a configured workflow. All other ids share one set of numbers. */
  workflow(id: string): WorkflowCounts;
  /** Returns the numbers of a configured agent. All other ids share one set of numbers. */
  agent(id: string): AgentCounts;
  readonly storeWrites: Durations;
  readonly totals: Totals;
}

export interface Totals {
  /** Open WebSockets. */
  sockets: number;
  /** Log records that did not reach a reader or the log output. */
  droppedLogs: number;
  exportedSpans: number;
  /** Spans that could not be exported. */
  droppedSpans: number;
}
