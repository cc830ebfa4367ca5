import type { CreateWalk } from "../engine/attempts/walk.ts";
import type { Engine, HistoryRow } from "../engine/contract/engine.ts";
import { planFork, toCopiedRows } from "../engine/fork.ts";
import type { JournalRow } from "../engine/runs/journal-row.ts";
import type { DescribedExecution } from "../engine/steps/step-history.ts";
import { inputRow } from "../engine/walk/value.ts";

type Source = Pick<Engine, "history">;
type AddCopied = (next: HistoryRow) => HistoryRow;

/**
 * The journal of an execution. A fork of a former version is stored without the events of its copied steps: the code of today
 * plans it again. If the code is gone, or does not lead to its rows, the copied steps have no events and are not shown.
 */
export async function* historyWithCopies(
  engine: Source,
  execution: DescribedExecution,
  createWalk: CreateWalk | undefined,
): AsyncGenerator<readonly HistoryRow[]> {
  let addCopied: AddCopied | undefined;
  for await (const page of engine.history(execution.id)) {
    const isFormer = execution.fork?.stepIndex && page.some(({ row, copied }) => !row && !copied);
    if (isFormer && createWalk) addCopied = await planAgain(engine, execution, createWalk);
    yield addCopied ? page.map(addCopied) : page;
  }
}

async function planAgain(engine: Source, execution: DescribedExecution, createWalk: CreateWalk) {
  const all: JournalRow[] = [];
  for await (const page of engine.history(execution.id)) all.push(...page.flatMap(({ row }) => row ?? []));
  const first = all.filter(({ key }) => !key.includes("@")); // without those of steps that ran again after a resume
  const rows = toCopiedRows(execution.steps, first, execution.fork!.stepIndex); // as the caller has checked
  const plan = await planFork(execution, createWalk, "", rows).catch(() => undefined); // the code has changed
  if (!plan) return undefined;
  const copied = new Map(plan.rows.map((one) => [one.row.id, one.copied])).set(inputRow, plan.copied);
  const startAt = rows[0]?.row.at;
  return ({ row, at, events }: HistoryRow): HistoryRow => {
    return { row, at: row ? at : (startAt ?? at), events, copied: copied.get(row?.id ?? inputRow) };
  };
}
