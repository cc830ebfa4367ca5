import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";
import { toCodeTable } from "../../../src/engine/definition/code-table.ts";
import type { Execution, Transition } from "../../../src/engine/execution.ts";
import { Interpreter } from "../../../src/engine/walk/interpreter.ts";
import type { Value } from "../../../src/engine/walk/value.ts";
import { listSteps } from "../../../src/engine/compare-steps.ts";
import type { AttemptPlan, Decision, EntryResult, JournalInput } from "../../../src/engine/walk/decision.ts";
import type { Luck } from "../trees/luck.ts";

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
  const state = { status: "running" as Transition["to"], isAsked: false };
  const plans = new Map<string, AttemptPlan>();
  const types = new Map(listSteps(workflow.steps).map(([path, type]) => [path, type]));
  const take = (input?: JournalInput): void => {
    const { starts, transition } = interpreter.next(input);
    for (const plan of starts) plans.set(plan.key, plan);
    if (input) journal.push(input);
    if (input && "command" in input) state.status = input.command.to;
    if (input && "command" in input) state.isAsked = input.command.to === "suspended";
    if (input && "wake" in input) state.status = "running";
    if (!transition) return;
    interpreter.confirmTransition();
    state.status = transition.to;
  };
  take();
  while (state.status === "running" || state.status === "suspended") {
    const at = execution.startAt + journal.length;
    const keys = [...interpreter.waitingKeys()].filter((key) => !key.startsWith("~"));
    const waits = interpreter.parkedBranches().filter(({ due, event }) => due || event);
    if (journal.length > 200) take({ command: { at, to: "error", cancellation: { reason: "enough" } } });
    else if (state.status === "running" && luck.chance(0.05))
      take({
        command: { at, to: "suspended", reason: "by request", pending: [], position: interpreter.position() },
      });
    else if (waits.length > 0 && !state.isAsked && (keys.length === 0 || luck.chance(0.3)) && luck.chance(0.8))
      for (const [index, branch] of waits.entries()) {
        // All that are due end at the same moment.
        const isLast = index === waits.length - 1 || luck.chance(0.5);
        const value = branch.event && luck.chance(0.5) ? toValue(journal.length, luck) : undefined;
        take({ wake: { key: branch.key!, at, value, isJoined: isLast ? undefined : true } });
        if (isLast) break;
      }
    else if (keys.length > 0 && (state.status === "running" || luck.chance(0.3)))
      takeResult(keys[luck.pick(keys.length)]!, at);
    else if (state.status === "suspended" && luck.chance(0.97))
      take({ command: { at, to: "running", data: toValue(journal.length, luck), stepId: toStepId(workflow, luck) } });
    else if (state.status === "suspended" || keys.length > 0)
      take({ command: { at, to: "error", cancellation: { reason: "no more" } } });
  }
  return journal;

  function takeResult(key: string, at: number): void {
    const { codePath, suffix } = plans.get(key)!;
    const own = suffix === "?" ? toBeginning(types.get(codePath)!, at, journal.length, luck) : undefined;
    const isOwn = own && luck.chance(0.9);
    const failure: EntryResult = { at, error: { message: "no beginning" }, ...toEnd(luck) };
    take({ key, result: isOwn ? own : own ? failure : toResult(at, journal.length, luck, suffix) });
  }
}

/** The result of the entry with which a loop or a wait begins: our own code has made it. */
function toBeginning(type: string, at: number, row: number, luck: Luck): EntryResult | undefined {
  const inlineMs = [0, 5_000][luck.pick(2)]!;
  const ms = [0, 3, 4_000, 7_200_000][luck.pick(4)]!;
  const text = (value: object): EntryResult => ({ at, value: JSON.stringify(value) });
  if (type === "andSleep") return text({ ms, inlineMs });
  if (type === "andSleepUntil") return text({ date: new Date(at + ms).toISOString(), inlineMs });
  if (type === "andWaitFor") return text({ key: ["", "k"][luck.pick(2)], ...(luck.chance(0.5) && { ms }), inlineMs });
  if (type !== "andForEach") return undefined;
  const items = Array.from({ length: luck.pick(4) }, (_, index) => index);
  const loop = {
    count: items.length,
    concurrency: 1 + luck.pick(3),
    onError: (["fail", "collect"] as const)[luck.pick(2)]!,
  };
  return { at, loop, value: luck.chance(0.3) ? { row, bytes: 2_000 } : JSON.stringify(items) };
}

function toResult(at: number, row: number, luck: Luck, suffix: string): EntryResult {
  if (luck.chance(0.1)) return { at, error: { message: `failure ${row}` }, ...toEnd(luck) };
  const due = luck.chance(0.5) ? { due: { at: at + luck.pick(9_000), isElapsed: true as const } } : {};
  if (suffix === "" && luck.chance(0.1))
    return { at, suspended: { reason: `question ${row}`, data: toValue(row, luck), ...due } };
  return { at, value: toValue(row, luck) };
}

/** A failure that is final, that is retried, or of an older version, which did not say. */
function toEnd(luck: Luck): { isFinal?: boolean } {
  return [{}, { isFinal: true }, { isFinal: false }][luck.pick(3)]!;
}

function toValue(row: number, luck: Luck): Value {
  const values: Value[] = ["true", "false", undefined, `{"row":${row}}`, { row, bytes: 2_000 + row }];
  return values[luck.pick(values.length)];
}

/** Mostly none: with one the execution goes back, or nothing happens because the step has not begun. */
function toStepId({ steps }: WorkflowDefinition, luck: Luck): string | undefined {
  return luck.chance(0.2) ? steps[luck.pick(steps.length)]!.id : undefined;
}
