import { isRetry, type ExecutionState, type ExecutionStatus, type Transition } from "../execution.ts";

/** The statuses from which a transition leads to a status. */
const legalFrom: Readonly<Record<ExecutionStatus, readonly ExecutionStatus[]>> = {
  running: ["suspended"],
  suspended: ["running"],
  completed: ["running"],
  error: ["running", "suspended"],
};

/** True if an execution in this state may make a transition. A failed execution may be retried, a cancelled one not. */
export function isLegal({ status, last }: Pick<ExecutionState, "status" | "last">, next: Transition): boolean {
  if (isRetry(next)) return status === "error" && last !== undefined && "error" in last;
  return legalFrom[next.to].includes(status);
}

/** The state of an execution after a transition. */
export function afterTransition<State extends ExecutionState>(state: State, next: Transition): State {
  const retriedBy = isRetry(next) ? next.by : state.retriedBy;
  return { ...state, status: next.to, epoch: state.epoch + 1, last: next, retriedBy };
}

export const isEnd = (status: ExecutionStatus): boolean => status === "completed" || status === "error";
