import { setImmediate as nextTurn } from "node:timers/promises";
import { ServeError } from "../core/error.ts";
import { codelessHost, type CreateWalk } from "./attempts/walk.ts";
import { toRowMismatch, toChangeReason } from "./compare-steps.ts";
import type { CopiedEvent, EventBody } from "./events.ts";
import type { DescribedStep, Execution, Transition } from "./execution.ts";
import { fromRow, type JournalRow } from "./runs/journal-row.ts";
import type { Value } from "./walk/value.ts";
import { StepTree } from "./steps/step-tree.ts";
import { fromEntryKey, fromWakeKey, toEntryKey, toStableKey } from "./walk/journal-keys.ts";

/** The start of a fork: the results that it begins with. */
export interface ForkSource {
  /** The id of the original. */
  readonly from: string;
  readonly rows: readonly PlannedRow[];
  /** The start events, and the events of the copied steps that began with it. */
  readonly events: readonly EventBody[];
  readonly copied: readonly CopiedEvent[];
  /** The fork ends at once: its last steps have no code. Long values refer to rows of the original. */
  readonly transition?: Transition<Value> | undefined;
}
/** A result of the original, and its key in the fork. */
export interface CopiedRow {
  readonly row: JournalRow;
  readonly key: string;
}
/** A result as it is copied, with the events of the copied steps that follow from it. */
interface PlannedRow extends CopiedRow {
  readonly copied: readonly CopiedEvent[];
}

/** The rows that are walked over in one turn of the event loop. */
const turnRows = 1_000;

/**
 * Plans the start of a fork on this code. Results that no branch waits for are left out: a branch may have recorded one after
 * it lost its race, while the original was suspended. Throws a 409 if the results do not lead to the step of the fork.
 */
export async function planFork(
  execution: Execution,
  createWalk: CreateWalk,
  from: string,
  rows: readonly CopiedRow[],
): Promise<ForkSource> {
  const walk = createWalk(execution, { ...codelessHost, readRow: () => undefined });
  try {
    const start = walk.next();
    const events = [...start.events];
    let { transition } = start;
    let unused: string | undefined;
    const used: PlannedRow[] = [];
    for (const [index, { row, key }] of rows.entries()) {
      if (index % turnRows === turnRows - 1) await nextTurn();
      if (!walk.isWaitingFor(key)) {
        unused ??= key;
        continue;
      }
      const decision = walk.next(fromRow({ ...row, key }));
      events.push(...decision.events);
      ({ transition } = decision);
      used.push({ row, key, copied: decision.copied ?? [] });
    }
    if (walk.position().stepIndex >= execution.fork!.stepIndex)
      return { from, rows: used, events, copied: start.copied ?? [], transition };
    throw new ServeError(409, toChangeReason(unused === undefined ? "it has other steps" : toRowMismatch(unused)));
  } finally {
    walk.release("Only the start of the fork was decided");
  }
}

/**
 * Returns the results of the steps before a top-level step, in the order of the journal. In the fork each is the first result of
 * its entry, so its journal reads as if every step had succeeded at once. So is the end of a wait, also if a resume skipped it.
 */
export function toCopiedRows(
  steps: readonly DescribedStep[],
  rows: Iterable<JournalRow>,
  stepIndex: number,
): readonly CopiedRow[] {
  const tree = new StepTree(steps);
  /** The rows of the steps, by top-level step: only of its last run, the last one of each entry. */
  const runs = new Map<number, { readonly generation: number; readonly rows: Map<string, JournalRow> }>();
  for (const row of rows) {
    if (row.kind === "command") {
      addSkip(row);
      continue;
    }
    const key = fromEntryKey(row.key) ?? fromWakeKey(row.key);
    const index = key && tree.parse(key.path.replace(/\/$/, ""))?.node.stepIndex;
    if (key === undefined || index === undefined || index >= stepIndex) continue;
    const { path, suffix, generation } = key;
    const known = runs.get(index);
    const run = known?.generation === generation ? known : { generation, rows: new Map<string, JournalRow>() };
    runs.set(index, run);
    const stable = (row.kind === "wake" ? "~" : "") + toStableKey(path, suffix, 0);
    run.rows.delete(stable); // so that the last row of an entry is also the last in order
    run.rows.set(stable, row);
  }
  return [...runs.values()]
    .flatMap((run) => [...run.rows])
    .filter(([, { kind }]) => kind !== "suspended")
    .map(([stable, row]) => ({ row: toCopiedRow(row), key: toEntryKey(stable, 1) }))
    .toSorted((one, other) => one.row.id - other.row.id);

  /** A resume may have ended the wait of a step for a time or an event. */
  function addSkip(row: JournalRow): void {
    const { stepId = "" } = JSON.parse(row.body!) as { stepId?: string };
    const node = tree.find(stepId);
    if (node?.traits.shape !== "wait") return;
    const run = runs.get(node.stepIndex);
    if (run?.rows.has(`${stepId}?`) && !run.rows.has(`~${stepId}`)) run.rows.set(`~${stepId}`, row);
  }
}

/** A row of the original as the fork has it: the resume that skipped a wait becomes the end of the wait. */
export function toCopiedRow(row: JournalRow): JournalRow {
  return row.kind === "command" ? { ...row, kind: "wake", body: "{}" } : row;
}
