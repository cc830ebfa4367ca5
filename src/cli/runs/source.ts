import { isExecutionId } from "../../core/id.ts";
import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import type { ExecutionStatus } from "../../engine/execution.ts";
import type { ExecutionView } from "../../engine/runtime.ts";
import type { StepStatus } from "../../engine/steps/step-record.ts";
import type { StepView } from "../../workflows/history/step-views.ts";
import { UsageError } from "../usage.ts";

/** An execution in a list, without its values. */
export interface RunItem {
  readonly executionId: string;
  readonly workflowId: string;
  readonly status: ExecutionStatus;
  readonly startAt: string;
  readonly endAt: string | null;
  readonly suspension?: { readonly reason: string };
  readonly error?: string;
  readonly cancellation?: { readonly reason: string };
}

interface RunFilter {
  readonly statuses?: readonly ExecutionStatus[] | undefined;
  readonly workflow?: string | undefined;
  readonly kind?: string | undefined;
  readonly user?: string | undefined;
  /** The beginning of an id. */
  readonly id?: string | undefined;
  readonly limit: number;
}

interface StepFilter {
  readonly status?: StepStatus | undefined;
  /** The path of a loop, an item or a sub-workflow: only what it contains. */
  readonly under?: string | undefined;
}

/** The place that executions are read from: a server, or the data file of a stopped one. */
export interface RunSource {
  list(filter: RunFilter): Promise<RunItem[]>;
  /** Undefined if there is no such execution. */
  state(run: RunItem): Promise<ExecutionView | undefined>;
  steps(run: RunItem, filter: StepFilter): Promise<StepView[]>;
  /** The flags with which a printed command reaches the same place. */
  readonly flag: string;
}

/** Returns the execution with an id, or the only one whose id begins with it. */
export async function findRun(source: RunSource, id: string): Promise<RunItem> {
  if (!isExecutionId(id)) throw new UsageError("<id>: expected the id of an execution, or the beginning of one");
  const found = await source.list({ id, limit: maxShown + 1 });
  const exact = found.find(({ executionId }) => executionId === id);
  // An id that is also the beginning of others may be far down in the list.
  const run = exact ?? (found.length === 1 ? found[0] : undefined);
  if (run) return run;
  if (found.length === 0)
    throw new UserError(`Execution ${id} not found`, {
      hint: `list the newest ones with: npx agentserve runs${source.flag}`,
    });
  const ids = found.slice(0, maxShown).map(({ executionId }) => toVisible(executionId));
  const more = found.length > maxShown ? " …" : "";
  throw new UserError(`${id} is the beginning of several ids`, { hint: `choose one of: ${ids.join(", ")}${more}` });
}
const maxShown = 5;
