import { resolve } from "node:path";
import { openOffline } from "../../backends/embedded/offline.ts";
import type { ListedExecution } from "../../backends/embedded/store/stored-state.ts";
import { toIso } from "../../core/iso-time.ts";
import { toShellWord } from "../../core/terminal/shell.ts";
import { toStateView } from "../../workflows/results.ts";
import { listSteps, type StepView } from "../../workflows/history/step-views.ts";
import type { RunItem, RunSource } from "./source.ts";

/** The executions in the data file of a stopped server. */
export interface FileRuns extends RunSource {
  /** Returns false for a completed, failed or cancelled execution. */
  cancel(id: string, reason: string): boolean;
  close(): void;
}

export function openFileRuns(file: string): FileRuns {
  const store = openOffline(resolve(file));
  const engine = { history: store.history, rowText: store.rowText };
  return {
    flag: ` --data ${toShellWord(file)}`,
    list: async ({ statuses, workflow: workflowId, user: userId, id: idPrefix, limit }) =>
      store.list({ statuses, workflowId, userId, idPrefix, limit }).map(toItem),
    async state({ executionId }) {
      const state = store.state(executionId);
      return state && toStateView(state, true, true);
    },
    async steps({ executionId }, selected) {
      const state = store.state(executionId);
      const items: StepView[] = [];
      if (!state) return items;
      for (let after: number | undefined = 0; after !== undefined;) {
        const filter = { ...selected, after, limit: Infinity };
        const page = await listSteps(state, filter, { engine, showErrors: true, showValues: true });
        items.push(...page.items);
        after = page.last;
      }
      return items;
    },
    cancel: (id, reason) => store.cancel(id, reason),
    close: () => store.close(),
  };
}

function toItem(listed: ListedExecution): RunItem {
  const { id, workflowId, status, startAt, endAt, reason, error, cancelled } = listed;
  return {
    executionId: id,
    workflowId,
    status,
    startAt: toIso(startAt),
    endAt: endAt === null ? null : toIso(endAt),
    ...(reason !== null && { suspension: { reason } }),
    ...(error !== null && { error }),
    ...(cancelled !== null && { cancellation: { reason: cancelled } }),
  };
}
