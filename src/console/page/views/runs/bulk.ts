import type { ListedExecution } from "../../executions.ts";
import { notify } from "../../parts/notices.tsx";
import { toApiError } from "../../session.ts";

const parallel = 6;

/** Applies an action to many runs and tells how many have succeeded: `2 of 3 cancelled: Execution x has already ended`. */
export async function applyToAll(
  runs: readonly ListedExecution[],
  done: string,
  action: (run: ListedExecution) => Promise<unknown>,
): Promise<void> {
  const rest = [...runs];
  const errors: string[] = [];
  const work = async (): Promise<void> => {
    for (let run = rest.shift(); run; run = rest.shift()) {
      await action(run).catch((error: unknown) => errors.push(toApiError(error).message));
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  const count = runs.length - errors.length;
  const text = `${errors.length > 0 ? `${count} of ` : ""}${runs.length} ${runs.length === 1 ? "run" : "runs"} ${done}`;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  notify(errors.length > 0 ? "failed" : "done", errors.length > 0 ? `${text}: ${errors[0]}${more}` : text);
}
