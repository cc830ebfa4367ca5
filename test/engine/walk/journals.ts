import type { WorkflowDefinition } from "../../../src/engine/definition.ts";
import { toCodeTable } from "../../../src/engine/code-table.ts";
import type { Execution, Transition } from "../../../src/engine/execution.ts";
import { Interpreter } from "../../../src/engine/walk/interpreter.ts";
import type { Value } from "../../../src/engine/walk/value.ts";
import type { Decision, EntryResult, JournalInput } from "../../../src/engine/walk/decision.ts";
import type { Luck } from "../trees/play.ts";

/** The interpreter as a plain function: a journal in, decisions out. */
export function interpret(
  workflow: WorkflowDefinition,
  execution: Execution,
  journal: readonly JournalInput[],
): Decision[] {
  const interpreter = new Interpreter(workflow, toCodeTable(workflow), execution);
  return [undefined, ...journal].map((input) => {
    const decision = interpreter.next(input);
    if (decision.transition) interpreter.confirmTransition();
    return decision;
  });
}

/** A journal that no code has written: every result and every command is made up, as far as the rules allow. */
export function makeJournal(workflow: WorkflowDefinition, execution: Execution, luck: Luck): JournalInput[] {
  const interpreter = new Interpreter(workflow, toCodeTable(workflow), execution);
  const journal: JournalInput[] = [];
  const state = { status: "running" as Transition["to"] };
  const take = (input?: JournalInput): void => {
    const { transition } = interpreter.next(input);
    if (input) journal.push(input);
    if (input && "command" in input) state.status = input.command.to;
    if (!transition) return;
    interpreter.confirmTransition();
    state.status = transition.to;
  };
  take();
  while (state.status === "running" || state.status === "suspended") {
    const at = execution.startAt + journal.length;
    const keys = [...interpreter.waiting.keys()];
    if (journal.length > 200) take({ command: { at, to: "error", cancellation: { reason: "enough" } } });
    else if (state.status === "running" && luck.chance(0.05))
      take({
        command: { at, to: "suspended", reason: "by request", pending: [], position: interpreter.position() },
      });
    else if (keys.length > 0 && (state.status === "running" || luck.chance(0.3)))
      take({ key: keys[luck.pick(keys.length)]!, result: toResult(at, journal.length, luck) });
    else if (state.status === "suspended" && luck.chance(0.97))
      take({ command: { at, to: "running", data: toValue(journal.length, luck), stepId: toStepId(workflow, luck) } });
    else if (state.status === "suspended" || keys.length > 0)
      take({ command: { at, to: "error", cancellation: { reason: "no more" } } });
  }
  return journal;
}

function toResult(at: number, row: number, luck: Luck): EntryResult {
  if (luck.chance(0.1)) return { at, error: { message: `failure ${row}` } };
  if (luck.chance(0.1)) return { at, suspended: { reason: `question ${row}`, data: toValue(row, luck) } };
  return { at, value: toValue(row, luck) };
}

function toValue(row: number, luck: Luck): Value {
  const values: Value[] = ["true", "false", undefined, `{"row":${row}}`, { row, bytes: 2_000 + row }];
  return values[luck.pick(values.length)];
}

/** Mostly none: with one the execution goes back, or nothing happens because the step has not begun. */
function toStepId({ steps }: WorkflowDefinition, luck: Luck): string | undefined {
  return luck.chance(0.2) ? steps[luck.pick(steps.length)]!.id : undefined;
}
