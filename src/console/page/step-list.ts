import { ask, toQuery } from "./server/api.ts";
import { executionPath, type ExecutionRef, type Page, type PendingBranch } from "./executions.ts";

export const stepStatuses = ["waiting", "running", "suspended", "error", "aborted", "success", "skipped"] as const;
export type StepStatus = (typeof stepStatuses)[number];

export interface StepAttempt {
  readonly attempt: number;
  readonly startAt: string;
  readonly endAt: string | null;
  readonly error?: string;
  /** The lines of code around the one that failed. Only in `dev`. */
  readonly frame?: string;
}
/** A started step, or an iteration of a loop. */
export interface StepView {
  readonly path: string;
  readonly stepId: string;
  readonly type: string;
  readonly status: StepStatus;
  readonly startAt: string;
  readonly endAt: string | null;
  readonly attempts: readonly StepAttempt[];
  readonly input?: unknown;
  readonly output?: unknown;
  readonly suspension?: Omit<PendingBranch, "stepId">;
  readonly nextAttemptAt?: string;
  /** The iterations of a loop, in total and by status. */
  readonly count?: { readonly total: number } & { readonly [S in StepStatus]?: number };
  readonly redacted?: true;
  readonly parent: string | null;
}
export interface StepQuery {
  readonly status?: StepStatus | undefined;
  readonly path?: string | undefined;
  readonly under?: string | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

export const listSteps = (of: ExecutionRef, query: StepQuery, signal?: AbortSignal): Promise<Page<StepView>> =>
  ask(`${executionPath(of)}/steps${toQuery({ ...query })}`, { signal });

/** Returns the size of a large value that the server left out. */
export function toTruncatedSize(value: unknown): number | undefined {
  const is = typeof value === "object" && value !== null && "$truncated" in value && "bytes" in value;
  return is && typeof value.bytes === "number" && Object.keys(value).length === 2 ? value.bytes : undefined;
}
