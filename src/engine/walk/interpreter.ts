import type { Branch, EntryInput, Outcome, Step, StepRunner, WorkflowDefinition } from "../definition.ts";
import { findCode, toDelay, type CodeTable } from "../code-table.ts";
import type { EventBody } from "../events.ts";
import type { Execution, ParkedBranch, Position, Transition } from "../execution.ts";
import { Fibers, StepFailure } from "./fibers.ts";
import { prefixOf, toEntryKey, toIdempotencyKey, toStableKey } from "./journal-keys.ts";
import { inputRow, toValue, type Value } from "./value.ts";
import type { AttemptPlan, Decision, EntryResult, JournalInput, ResumeInput } from "./decision.ts";

/**
 * Walks a workflow: `next` maps each input of the journal to a decision.
 *
 * It owns the place of the walk: the branches (`Fibers`), the outputs so far, the events not yet returned.
 * It never starts code, reads a clock, logs or waits.
 *
 * I1. Decisions are a function of the inputs and their order, so a replay of the journal leads to the same place.
 * I2. The clock is the time of the last input.
 * I3. While the walk is paused (suspended or ended), results of entries are taken in, but no branch continues.
 * I4. At most one transition per decision. The walk is paused once that is confirmed.
 * I5. Values over 1 KB are references to rows. No text is read here.
 */
export class Interpreter {
  readonly #workflow: WorkflowDefinition;
  readonly #codes: CodeTable;
  readonly #executionId: string;
  readonly #input: Value;
  readonly #fibers = new Fibers();
  #events: EventBody[] = [];
  #clock: number;
  /** The number of resumes that went back to an earlier step. */
  #generation = 0;
  /** The index of the top-level step that the walk has reached. */
  #topIndex = 0;
  /** The data that each top-level step was given. */
  readonly #stepData: Value[] = [];
  /** The outputs of all steps that have completed, by path. */
  readonly #outputs = new Map<string, { readonly value: Value; readonly topIndex: number }>();
  /** The number of journal rows of each stable key. */
  readonly #counts = new Map<string, number>();
  /** The reason why no branch continues: a transition of this walk, or a command. */
  #pausedBy: "decision" | "command" | undefined;

  constructor(workflow: WorkflowDefinition, codes: CodeTable, { id, input, startAt }: Execution) {
    this.#workflow = workflow;
    this.#codes = codes;
    this.#executionId = id;
    this.#input = toValue(input, inputRow);
    this.#clock = startAt;
  }

  /** Begins the walk, or takes the next input. */
  next(input?: JournalInput): Decision {
    if (!input) this.#begin();
    else if ("key" in input) this.#deliver(input.key, input.result);
    else this.#obey(input.command);
    if (!this.#pausedBy) this.#fibers.advance();
    const events = this.#events;
    this.#events = [];
    const { starts, aborts } = this.#fibers.takePlans();
    return { events, starts, aborts, transition: this.#pausedBy ? undefined : this.#toTransition() };
  }

  /** The transition of the last decision has been made. */
  confirmTransition(): void {
    this.#pausedBy = "decision";
  }

  /** The keys of the entries that a branch waits for. */
  get waiting(): ReadonlyMap<string, unknown> {
    return this.#fibers.waiting;
  }

  /** The step in flight, else the next one. */
  position(): Position {
    const { steps } = this.#workflow;
    const stepIndex = Math.max(0, Math.min(this.#topIndex, steps.length - 1));
    const found = this.#fibers.position() ?? { stepIndex, stepId: steps[stepIndex]?.id ?? "" };
    return { stepIndex: found.stepIndex, stepId: found.stepId };
  }

  /** The recorded output of a step, as the step at `path` names it: a step beside it first, then one of the workflow. */
  output(path: string, stepId: string): Value {
    return (this.#outputs.get(prefixOf(path) + stepId) ?? this.#outputs.get(stepId))?.value;
  }

  #begin(): void {
    this.#events.push({ type: "workflow-start" });
    this.#fibers.setRoot(this.#runTop(0, this.#input));
  }

  #deliver(key: string, result: EntryResult): void {
    this.#clock = result.at;
    this.#fibers.deliver(key, result);
  }

  /** Follows a transition made from outside: suspend, resume or cancel. */
  #obey(command: Transition<Value>): void {
    this.#clock = command.at;
    if (command.to === "running") {
      this.#resume(command.stepId, { data: command.data, by: command.by });
      this.#pausedBy = undefined;
      return;
    }
    this.#pausedBy = "command";
    if (command.to === "error") this.#fibers.kill("The execution was cancelled");
  }

  /** A parked branch continues, or an earlier step begins again. After a suspension from outside all branches continue. */
  #resume(stepId: string | undefined, resumed: ResumeInput): void {
    const parked: ParkedBranch<Value>[] = this.#pausedBy === "command" ? [] : this.#fibers.parked();
    const target = stepId === undefined ? parked[0] : parked.find((one) => one.stepId === stepId);
    if (target) return this.#fibers.resume(target, resumed);
    const index = this.#workflow.steps.findIndex(({ id }) => id === stepId);
    if (index >= 0 && index in this.#stepData) this.#goBack(index, resumed);
  }

  /** Forgets the outputs of later steps. The steps from here on run under new journal keys. */
  #goBack(index: number, resumed: ResumeInput): void {
    this.#generation++;
    for (const [path, { topIndex }] of this.#outputs) if (topIndex >= index) this.#outputs.delete(path);
    this.#fibers.setRoot(this.#runTop(index, this.#stepData[index], resumed));
  }

  /** The transition that the branches call for. */
  #toTransition(): Transition<Value> | undefined {
    const at = this.#clock;
    const { ended, waiting } = this.#fibers;
    if (ended && "error" in ended) return { at, to: "error", error: ended.error };
    if (ended) return { at, to: "completed", result: ended.value };
    if (waiting.size > 0) return undefined;
    const pending = this.#fibers.parked(); // not empty: nothing has ended and no entry is waited for, so F2 leaves only these
    return { at, to: "suspended", reason: pending[0]!.reason, pending };
  }

  *#runTop(from: number, start: Value, resumed?: ResumeInput): Branch {
    const workflow = this.#workflow;
    const runner = this.#createRunner("", this.#input);
    let data = start;
    for (const [index, step] of workflow.steps.entries()) {
      if (index < from) continue;
      this.#topIndex = index;
      this.#stepData[index] = data;
      ({ value: data } = yield* runner.step(step, data, index === from ? resumed : undefined));
    }
    return yield* checkResult(runner, workflow, data);
  }

  #createRunner(prefix: string, input: Value): StepRunner {
    const runner: StepRunner = {
      step: (step, data, resumed) => this.#runStep(runner, prefix, step, data, resumed),
      entry: (stepId, entry) => this.#runEntry(prefix + stepId, input, entry),
      *fork(mode, branches): Branch<readonly Outcome[]> {
        return (yield { type: "fork", mode, branches }) as readonly Outcome[]; // as Fibers sends them
      },
      runWorkflow: (stepId, workflow, data) => this.#runWorkflow(runner, `${prefix}${stepId}/`, stepId, workflow, data),
    };
    return runner;
  }

  *#runStep(runner: StepRunner, prefix: string, step: Step, data: Value, resumed?: ResumeInput): Branch {
    const from = prefix + step.id;
    const stepIndex = this.#topIndex;
    const { type: stepType } = step;
    this.#events.push({ type: "step-start", from, stepIndex, stepType, attempt: 1 });
    const outcome = yield* step.run(runner, data, resumed);
    const { value, attempt = 1, skipped } = outcome;
    this.#outputs.set(from, { value, topIndex: stepIndex });
    const status = skipped ? "skipped" : "success";
    this.#events.push({ type: "step-complete", from, stepIndex, stepType, attempt, status });
    return outcome;
  }

  *#runWorkflow(outer: StepRunner, prefix: string, stepId: string, workflow: WorkflowDefinition, start: Value): Branch {
    let data = start;
    if (workflow.inputSchema) ({ value: data } = yield* outer.entry(stepId, { suffix: "<", data }));
    const runner = this.#createRunner(prefix, data);
    for (const step of workflow.steps) ({ value: data } = yield* runner.step(step, data));
    return yield* checkResult(runner, workflow, data);
  }

  *#runEntry(path: string, input: Value, { suffix = "", data, argument, resumed: first }: EntryInput): Branch {
    const { retry } = findCode(this.#codes, path, suffix);
    const stableKey = toStableKey(path, suffix, this.#generation);
    const idempotencyKey = toIdempotencyKey(this.#executionId, stableKey);
    const position = { stepIndex: this.#topIndex, stepId: path };
    let resumed = first;
    for (let attempt = 1; ;) {
      const key = toEntryKey(stableKey, this.#count(stableKey));
      const plan: AttemptPlan = {
        key,
        path,
        suffix,
        attempt,
        delay: toDelay(retry, attempt),
        idempotencyKey,
        data,
        argument,
        input,
        resumed,
      };
      const result = (yield { type: "entry", position, plan }) as EntryResult; // as Fibers sends it
      if ("suspended" in result) {
        const branch: ParkedBranch<Value> = { ...position, ...result.suspended };
        resumed = (yield { type: "park", branch }) as ResumeInput; // as Fibers sends it
        attempt = 1;
      } else if (!("error" in result)) {
        return { value: result.value, attempt };
      } else if (attempt++ >= retry.attempts) {
        throw new StepFailure(result.error);
      }
    }
  }

  #count(stableKey: string): number {
    const count = (this.#counts.get(stableKey) ?? 0) + 1;
    this.#counts.set(stableKey, count);
    return count;
  }
}

/** Checks the last value of a workflow against its `result` schema. */
function* checkResult(runner: StepRunner, { resultSchema }: WorkflowDefinition, data: Value): Branch {
  if (!resultSchema) return { value: data };
  return yield* runner.entry("", { suffix: ">", data });
}
