import type { CreateWalk } from "../../engine/attempts/walk.ts";
import type { Engine } from "../../engine/contract/engine.ts";
import type { HistoryRow } from "../../engine/contract/engine.ts";
import { planFork, toCopiedRows } from "../../engine/fork.ts";
import { describeSteps, type Execution } from "../../engine/execution.ts";
import type { StepTraits } from "../../engine/definition/step-traits.ts";
import type { JournalRow } from "../../engine/runs/journal-row.ts";
import type { DescribedExecution } from "../../engine/steps/step-history.ts";
import { inputRow } from "../../engine/walk/value.ts";

type Source = Pick<Engine, "history">;
type AddCopied = (next: HistoryRow) => HistoryRow;

/**
 * The journal of an execution. A fork of a former version is stored without the events of its copied steps: it is
 * planned again on the current code. If that is gone, or does not lead to its rows, the copied steps are not shown.
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
  const first = all.filter(({ key }) => !key.includes("@")); // without steps that ran again after a resume
  const rows = toCopiedRows(execution.steps, first, execution.fork!.stepIndex); // as the caller has checked
  const plan = await planFork(execution, createWalk, "", rows).catch(() => undefined); // the code has changed
  if (!plan) return undefined;
  const copied = new Map(plan.rows.map((one) => [one.row.id, one.copied])).set(inputRow, plan.copied);
  const startAt = rows[0]?.row.at;
  return ({ row, at, events }: HistoryRow): HistoryRow => {
    return { row, at: row ? at : (startAt ?? at), events, copied: copied.get(row?.id ?? inputRow) };
  };
}

/** The step types of versions that stored only their names. */
const formerTraits: Readonly<Record<string, StepTraits>> = {
  andThen: { shape: "leaf" },
  andAgent: { shape: "leaf" },
  andMap: { shape: "leaf" },
  andTap: { shape: "leaf", tolerates: true, passesOn: true },
  andWhen: { shape: "choice", passesOn: true },
  andBranch: { shape: "choice" },
  andAll: { shape: "all" },
  andRace: { shape: "race" },
  andForEach: { shape: "loop", items: "list" },
  andDoWhile: { shape: "loop", items: "iteration" },
  andDoUntil: { shape: "loop", items: "iteration" },
  andSleep: { shape: "wait", passesOn: true },
  andSleepUntil: { shape: "wait", passesOn: true },
  andWaitFor: { shape: "wait" },
  andWorkflow: { shape: "child" },
};

/** Adds the traits that executions of former versions were stored without. Their workflow may be gone. */
export function toDescribed(execution: Execution): DescribedExecution {
  return { ...execution, steps: describeSteps(execution.steps, (_, type) => formerTraits[type]) };
}
