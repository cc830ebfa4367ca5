import { ApiError, ask, path, toQuery } from "./server/api.ts";
import type { ExecutionStatus, SuspensionKind } from "./server/live.ts";

/** A page of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}
/** A branch of an execution that waits. */
export interface PendingBranch {
  readonly suspendedAt: string;
  readonly stepId: string;
  readonly reason: string;
  readonly data?: unknown;
  readonly kind: SuspensionKind;
  readonly wakeAt?: string;
  readonly deadline?: string;
  readonly event?: string;
  readonly key?: string;
}
interface Suspension extends PendingBranch {
  /** The branches, if there are several: at most 100. */
  readonly pending?: readonly PendingBranch[];
  /** The number of branches, if there are more. */
  readonly pendingCount?: number;
}
export interface ListedExecution {
  readonly executionId: string;
  readonly workflowId: string;
  readonly status: ExecutionStatus;
  readonly startAt: string;
  readonly endAt: string | null;
  readonly suspension?: Suspension;
  readonly error?: string;
  readonly cancellation?: { readonly cancelledAt: string; readonly reason: string };
  readonly forkedFrom?: string;
}
export interface ExecutionState extends ListedExecution {
  readonly input: unknown;
  readonly context: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly retriedBy?: { readonly userId?: string };
  /** Undefined while it is running. */
  readonly mayFork?: boolean;
}
/** The ids of an execution. */
export type ExecutionRef = Pick<ListedExecution, "workflowId" | "executionId">;

/** Returns every branch of a suspended execution. */
export const toBranches = ({ suspension }: ListedExecution): readonly PendingBranch[] =>
  suspension ? (suspension.pending ?? [suspension]) : [];
export const isFailed = ({ status, cancellation }: ListedExecution): boolean => status === "error" && !cancellation;
export const isOpen = ({ status }: Pick<ListedExecution, "status">): boolean =>
  status === "running" || status === "suspended";

export const listExecutions = (
  filter: Readonly<Record<string, string | number | undefined>>,
  signal?: AbortSignal,
): Promise<Page<ListedExecution>> => ask(`/executions${toQuery(filter)}`, { signal });

export const executionPath = ({ workflowId, executionId }: ExecutionRef): string =>
  path`/workflows/${workflowId}/executions/${executionId}`;

const later = { prefer: "respond-async" };

/** Cancels an execution. An empty reason is left out. */
export const cancel = (of: ExecutionRef, reason: string): Promise<unknown> =>
  ask(`${executionPath(of)}/cancel`, { body: reason === "" ? {} : { reason } });
export const retry = (of: ExecutionRef): Promise<unknown> =>
  ask(`${executionPath(of)}/retry`, { method: "POST", headers: later });
/** Starts another execution that begins with this step. Returns its id. */
export const fork = (of: ExecutionRef, fromStep: string): Promise<{ executionId: string }> =>
  ask(`${executionPath(of)}/fork`, { body: { fromStep }, headers: later });

/** Continues a branch. While another branch runs, the server answers with a 404: it is tried again for a few seconds. */
export async function resume(of: ExecutionRef, { kind, stepId }: PendingBranch, resumeData?: unknown): Promise<void> {
  const isWhole = kind === "request" || kind === "system"; // no branch waits: the execution continues where it was
  const body = isWhole ? {} : { resumeData, options: { stepId } };
  for (let attempts = 1; ; attempts++) {
    try {
      return void (await ask(`${executionPath(of)}/resume`, { body, headers: later }));
    } catch (error) {
      const isBusy = error instanceof ApiError && error.status === 404 && error.message.includes("is running");
      if (!isBusy || attempts === 8) throw error;
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
  }
}
