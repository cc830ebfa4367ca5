import type { Branch, BranchEnd, StepOutput, Step, StepRunner, WorkflowDefinition } from "../definition/definition.ts";
import type { CodeTable } from "../definition/code-table.ts";
import type { CopiedEvent, EventBody } from "../events.ts";
import type { Execution, ParkedBranch, Position, Transition } from "../execution.ts";
import { runEntry, runWait, WalkState, type StepScope } from "./entries.ts";
import { Fibers } from "./fibers.ts";
import { prefixOf } from "./journal-keys.ts";
import { isForPerson, isShortWait, toPending } from "./pending.ts";
import { inputRow, toValue, type Value } from "./value.ts";
import type { Decision, EntryResult, JournalInput, ResumeInput, Wake } from "./decision.ts";

/**
 * Walks a workflow: `next` maps each input of the journal to a decision.
 *
 * It owns the place of the walk: the branches (`Fibers`), the outputs so far, the events not yet returned.
 * It never starts code, reads a clock, logs or waits.
 *
 * I1. Decisions are a function of the inputs and their order, so a replay of the journal leads to the same place.
 * I2. The clock is the time of the last input, in a fork at least the start time.
 * I3. While the walk is paused (suspended or ended), results of entries are taken in, but no branch continues.
 * I4. At most one transition per decision. The walk is paused once that is confirmed.
 * I5. Values over 1 KB are references to rows. No text is read here.
 */
export class Interpreter {
  readonly #workflow: WorkflowDefinition;
  readonly #state: WalkState;
  readonly #input: Value;
  readonly #fibers = new Fibers();
  #events: EventBody[] = [];
  #copied: CopiedEvent[] | undefined;
  /** The data that each top-level step was given. */
  readonly #stepData: Value[] = [];
  /** The outputs of completed steps, by path. Going back replaces the map: code in flight keeps the one it began with. */
  outputs: Outputs = new Map();
  /** The reason why no branch continues: a transition of this walk, or a command. */
  #pausedBy: "decision" | "command" | undefined;

  constructor(workflow: WorkflowDefinition, codes: CodeTable, execution: Execution) {
    this.#workflow = workflow;
    this.#state = new WalkState(codes, execution);
    this.#input = toValue(execution.input, inputRow);
  }

  /** Begins the walk, or takes the next input. */
  next(input?: JournalInput): Decision {
    if (!input) this.#begin();
    else if ("key" in input) this.#deliver(input.key, input.result);
    else if ("wake" in input) this.#wake(input.wake);
    else this.#onCommand(input.command);
    // The rows that were joined to a copied one may not have been copied.
    const isWhole = !input || !("wake" in input) || !input.wake.isJoined || this.#state.isCopied;
    if (!this.#pausedBy && isWhole) this.#fibers.advance();
    const events = this.#events;
    const copied = this.#copied;
    this.#events = [];
    this.#copied = undefined;
    const transition = this.#pausedBy || !isWhole ? undefined : this.#toTransition();
    const { starts, aborts, parks } = this.#fibers.takePlans();
    return { events, copied, starts, aborts, parks, transition };
  }

  /** The transition of the last decision has been made. */
  confirmTransition(): void {
    this.#pausedBy = "decision";
  }

  /** The keys of awaited entries, and the wake keys of parked branches. */
  *waitingKeys(): Generator<string> {
    yield* this.#fibers.waiting.keys();
    yield* this.#fibers.parked.keys();
  }

  /** True if a branch waits for an entry, or for the end of a wait. */
  isWaitingFor(key: string): boolean {
    return this.#fibers.waiting.has(key) || this.#fibers.parked.has(key);
  }

  /** The branches that wait for a person, a time or an event, in the order of the definition. */
  parkedBranches(): readonly ParkedBranch<Value>[] {
    return this.#fibers.parkedBranches();
  }

  /** The step in flight, else the next one. */
  position(): Position {
    const { steps } = this.#workflow;
    const stepIndex = Math.max(0, Math.min(this.#state.stepIndex, steps.length - 1));
    const found = this.#fibers.position() ?? { stepIndex, stepId: steps[stepIndex]?.id ?? "" };
    return { stepIndex: found.stepIndex, stepId: found.stepId };
  }

  /**
   * The recorded output of a step, as the step at `path` names it: one beside it first, then one beside the steps around it.
   */
  output(path: string, stepId: string, outputs: Outputs = this.outputs): Value {
    // The code of an iteration, such as its condition, is beside the steps of that iteration.
    const first = isIteration.test(path) ? `${path}/` : prefixOf(path);
    for (let prefix = first; ; prefix = prefixOf(prefix.slice(0, -1))) {
      const found = outputs.get(prefix + stepId);
      if (found || prefix === "") return found?.value;
    }
  }

  #begin(): void {
    this.#events.push({ type: "workflow-start" });
    this.#fibers.setRoot(this.#runTop(0, this.#input));
  }

  #deliver(key: string, result: EntryResult): void {
    this.#state.reach(result.at);
    this.#fibers.deliver(key, result);
  }

  /** Ends a wait by its time or its event. A suspended execution is running again. */
  #wake({ key, at, value }: Wake): void {
    this.#state.reach(at);
    this.#pausedBy = undefined;
    this.#fibers.resume(key, { data: value, by: undefined, isWake: true });
  }

  /** Follows a command: suspend, resume, retry, cancel, or the failure of an interrupted execution. */
  #onCommand(command: Transition<Value>): void {
    this.#state.clock = command.at;
    if (command.to === "running") {
      if (command.isRetry) this.#fibers.retry();
      // A wake on other code: no wait ended, the server suspends the execution next.
      else if (!command.isWake) this.#resume(command.stepId, { data: command.data, by: command.by });
      this.#pausedBy = undefined;
      return;
    }
    this.#pausedBy = "command";
    if ("cancellation" in command) this.#fibers.kill("The execution was cancelled");
    if ("error" in command) this.#fibers.abort("The execution was interrupted");
  }

  /** A parked branch continues, or an earlier step begins again. After a suspension by a command all branches continue. */
  #resume(stepId: string | undefined, resumed: ResumeInput): void {
    const parked = this.#pausedBy === "command" ? [] : this.#fibers.parkedBranches();
    const target = stepId === undefined ? parked.find(isForPerson) : parked.find((one) => one.stepId === stepId);
    if (target) return this.#fibers.resume(target.key, resumed);
    const index = this.#workflow.steps.findIndex(({ id }) => id === stepId);
    if (index >= 0 && index in this.#stepData) this.#goBack(index, resumed);
  }

  /** Forgets the outputs of later steps, and that they began. The steps from here on run under new journal keys. */
  #goBack(index: number, resumed: ResumeInput): void {
    this.#state.generation++;
    this.outputs = new Map([...this.outputs].filter(([, { stepIndex }]) => stepIndex < index));
    // A resume may name one of these, if the position that it was checked against is old.
    this.#stepData.length = index + 1;
    this.#fibers.setRoot(this.#runTop(index, this.#stepData[index], resumed));
  }

  /** The transition that the branches call for. */
  #toTransition(): Transition<Value> | undefined {
    const at = this.#state.clock;
    const { ended, waiting } = this.#fibers;
    if (ended && "error" in ended) return { at, to: "error", error: ended.error };
    if (ended) return { at, to: "completed", result: ended.value };
    if (waiting.size > 0 || this.#state.isCopied) return undefined; // the waits of copied steps ended
    const parked = this.#fibers.parkedBranches(); // not empty: nothing ended and no entry is waited for, so F2 leaves only these
    return isShortWait(parked, at) ? undefined : { at, to: "suspended", ...toPending(parked) };
  }

  *#runTop(from: number, start: Value, resumed?: ResumeInput): Branch {
    const workflow = this.#workflow;
    const runner = this.#createRunner({ prefix: "", codePrefix: "", input: this.#input });
    let data = start;
    for (const [index, step] of workflow.steps.entries()) {
      if (index < from) continue;
      this.#state.stepIndex = index;
      this.#stepData[index] = data;
      ({ value: data } = yield* runner.step(step, data, index === from ? resumed : undefined));
    }
    return yield* checkResult(runner, workflow, data);
  }

  #createRunner(place: StepScope): StepRunner {
    const { prefix, codePrefix, input } = place;
    const runner: StepRunner = {
      step: (step, data, resumed) => this.#runStep(runner, prefix, step, data, resumed),
      entry: (stepId, entry) => runEntry(this.#state, place, stepId, entry),
      *fork(fork): Branch<readonly StepOutput[]> {
        return (yield { type: "fork", fork }) as readonly StepOutput[]; // as Fibers sends them
      },
      *collect(fork): Branch<readonly BranchEnd[]> {
        return (yield { type: "fork", fork: { ...fork, mode: "collect" } }) as readonly BranchEnd[]; // as Fibers sends them
      },
      iteration: (stepId, index) =>
        this.#createRunner({
          prefix: `${prefix}${stepId}/${index}/`,
          codePrefix: `${codePrefix}${stepId}/`,
          input,
        }),
      wait: (stepId, wait) => runWait(this.#state, prefix + stepId, codePrefix + stepId, wait),
      runWorkflow: (stepId, workflow, data) => this.#runWorkflow(runner, place, stepId, workflow, data),
    };
    return runner;
  }

  *#runStep(runner: StepRunner, prefix: string, step: Step, data: Value, resumed?: ResumeInput): Branch {
    const from = prefix + step.id;
    const stepIndex = this.#state.stepIndex;
    const { type: stepType } = step;
    const isCopied = this.#state.isCopied;
    if (isCopied) (this.#copied ??= []).push([from]);
    else this.#events.push({ type: "step-start", from, stepIndex, stepType, attempt: 1 });
    const outcome = yield* step.run(runner, data, resumed);
    const { value, attempt = 1, skipped } = outcome;
    this.outputs.set(from, { value, stepIndex });
    const status = skipped ? "skipped" : "success";
    if (isCopied) (this.#copied ??= []).push([from, status]);
    else this.#events.push({ type: "step-complete", from, stepIndex, stepType, attempt, status });
    return outcome;
  }

  *#runWorkflow(
    outer: StepRunner,
    place: StepScope,
    stepId: string,
    workflow: WorkflowDefinition,
    start: Value,
  ): Branch {
    let data = start;
    if (workflow.inputSchema) ({ value: data } = yield* outer.entry(stepId, { suffix: "<", data }));
    const { prefix, codePrefix } = place;
    const runner = this.#createRunner({
      prefix: `${prefix}${stepId}/`,
      codePrefix: `${codePrefix}${stepId}/`,
      input: data,
    });
    for (const step of workflow.steps) ({ value: data } = yield* runner.step(step, data));
    return yield* checkResult(runner, workflow, data);
  }
}

export type Outputs = Map<string, { readonly value: Value; readonly stepIndex: number }>;

/** The path of a loop iteration: `each/3`. */
const isIteration = /\/\d+$/;

/** Checks the last value of a workflow against its `result` schema. */
function* checkResult(runner: StepRunner, { resultSchema }: WorkflowDefinition, data: Value): Branch {
  if (!resultSchema) return { value: data };
  return yield* runner.entry("", { suffix: ">", data });
}
