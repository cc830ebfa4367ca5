import { toRowMismatch, toStatusMismatch } from "../compare-steps.ts";
import type { ExecutionState } from "../execution.ts";
import type { JournalInput } from "../walk/decision.ts";
import { fromRow, type JournalRow } from "./journal-row.ts";

/** Status and epoch of an execution. */
export type Progress = Pick<ExecutionState, "status" | "epoch">;

interface ReplayTarget {
  readonly walk: { isWaitingFor(key: string): boolean };
  /** Whether an input may follow the last one. */
  fits(input: JournalInput): boolean;
  take(input?: JournalInput, row?: JournalRow): void;
  /** Status and epoch after the inputs so far, and those of the execution. */
  decided(): Progress;
  readonly stored: Progress;
}

/**
 * Gives the rows of a journal to a walk. Returns the first mismatch: a row that this code does not lead to, for example because
 * a sub-workflow has lost its input schema, or another status at the end.
 */
export async function replayJournal(
  pages: AsyncIterable<readonly JournalRow[]>,
  { walk, fits, take, decided, stored }: ReplayTarget,
): Promise<string | undefined> {
  let last = "the start";
  take();
  for await (const rows of pages) {
    for (const row of rows) {
      const input = fromRow(row);
      if (!fits(input)) return toStatusMismatch(last);
      const key = "key" in input ? input.key : "wake" in input ? input.wake.key : undefined;
      if (key !== undefined && !walk.isWaitingFor(key)) return toRowMismatch(row.key);
      take(input, row);
      last = row.key;
    }
  }
  const { status, epoch } = decided();
  return status === stored.status && epoch === stored.epoch ? undefined : toStatusMismatch(last);
}
