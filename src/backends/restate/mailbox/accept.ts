import type { Program } from "../../../engine/contract/program.ts";
import { findMismatch } from "../../../engine/compare-steps.ts";
import type { Execution } from "../../../engine/execution.ts";
import { replay } from "../drive/replay-rows.ts";
import { startedIn, type StoredRow } from "../drive/rows.ts";
import type { TakeInput } from "../register/register-state.ts";
import { findTakes } from "../../../engine/runs/find-takes.ts";
import type { LocalMailboxes } from "./local-mailboxes.ts";

/** Finds the events that a suspended execution takes. No step runs. */
export async function accept(
  mailboxes: Pick<LocalMailboxes, "readerOf">,
  execution: Execution,
  rows: readonly StoredRow[],
  program: Program | undefined,
): Promise<Omit<TakeInput, "epoch">> {
  if (!program || findMismatch(execution.steps, program.steps, startedIn(rows)) !== undefined) return changed();
  const { run, walk, difference } = await replay(execution, rows, [], program);
  try {
    if (difference !== undefined) return changed();
    const taker = { execution, walk, hasTaken: (id: string) => run.hasTaken(id) };
    const { takes } = await findTakes(mailboxes.readerOf(execution), taker); // the drive looks for more
    return { at: Date.now(), takes };
  } finally {
    walk.release("Only its journal was read");
  }
}

const changed = (): Omit<TakeInput, "epoch"> => ({ at: Date.now(), takes: [], isChanged: true });
