import type { CopiedEvent, EventBody } from "../events.ts";
import type { DescribedStep, Execution, StoredError, Transition } from "../execution.ts";
import type { HistoryRow } from "../contract/engine.ts";
import { fromRow, type JournalRow } from "../runs/journal-row.ts";
import { fromEntryKey, fromWakeKey, stableKeyOf } from "../walk/journal-keys.ts";
import { inputRow, maxInlineBytes, toValue, type Value } from "../walk/value.ts";
import { judge, type StepOutcome } from "./judge-steps.ts";
import { toSuspendedStep, toWaitingStep } from "./parked-step.ts";
import type { DelayOf, StepSelection } from "./select-steps.ts";
import type { StepRecord } from "./step-record.ts";
import type { StepRun } from "./step-run.ts";
import { StepRuns } from "./step-runs.ts";
import { StepTree } from "./step-tree.ts";

export type { StepRecord };

/** An execution whose steps are described. */
export interface DescribedExecution extends Execution {
  readonly steps: readonly DescribedStep[];
}
export interface HistoryOptions extends StepSelection {
  /** @default no delays are known */
  readonly delayOf?: DelayOf | undefined;
}

/**
 * The steps of one execution, read from its journal. Pure: rows in, records out.
 *
 * S1. It knows the stored definition and the rows, never the code: an execution outlives its workflow.
 * S2. A step begins with its `step-start` and completes with its `step-complete`. Everything else is derived from rows.
 * S3. A step that ran again, because the execution went back, has the record of its last run. A loop that ran again has only
 *     the iterations of its last run.
 * S4. Steps that a fork has copied have events of their own (`CopiedEvent`), with the times of the original.
 * S5. An iteration that ended leaves its output, and the records that are asked for (`StepRuns`).
 */
export class StepHistory {
  readonly #execution: Execution;
  readonly #tree: StepTree;
  readonly #runs: StepRuns;
  /** The own events of a fork on its start and its copied rows. They come after those of the copied steps. */
  readonly #held: Pick<HistoryRow, "events" | "at">[] = [];
  #suspendedBy: "command" | "decision" | undefined;
  /** Runs whose failure was held while a command suspended the execution. The row that is being read has released them. */
  #released: StepRun[] = [];
  #endedAt: number | undefined;

  constructor(execution: DescribedExecution, options: HistoryOptions = {}) {
    this.#execution = execution;
    this.#tree = new StepTree(execution.steps);
    this.#runs = new StepRuns(this.#tree, options, { value: toValue(execution.input, inputRow) });
  }

  /** Takes the next row of the journal. */
  add(next: HistoryRow): void {
    const { row, at, events, copied } = next;
    if (!copied) {
      this.#publishHeld();
      return this.#take(next);
    }
    const { fork, startAt } = this.#execution;
    if (events.length > 0) this.#held.push({ events, at: row ? at : startAt });
    this.#take({ row, at: row?.at ?? fork?.startAt ?? at, events: copied.map(toEventBody) });
  }

  #publishHeld(): void {
    for (const { events, at } of this.#held.splice(0)) this.#publish(events, at);
  }

  /** The steps that began and are asked for, in the order of begin. */
  records(): StepRecord[] {
    this.#publishHeld();
    return this.#runs.records(this.#judgeAll(this.#endedAt));
  }

  #judgeAll(cutAt: number | undefined): Map<StepRun, StepOutcome> {
    const verdicts = new Map<StepRun, StepOutcome>();
    for (const run of this.#runs.all()) if (!run.outer) judge(run, verdicts, cutAt, this.#suspendedBy !== undefined);
    return verdicts;
  }

  #take({ row, at, events }: HistoryRow): void {
    const command = row?.kind === "command" ? (JSON.parse(row.body) as Transition) : undefined;
    if (command) this.#onCommand(command);
    const run = row && !command ? this.#addResult(row) : undefined;
    this.#publish(events, at, run, command);
    this.#collectReleased("", at);
    if (this.#suspendedBy !== "command") this.#runs.fill(at);
  }

  /** Adds the result of an entry, or the end of a wait, to its step. */
  #addResult(row: JournalRow): StepRun | undefined {
    const { key, kind, at } = row;
    const { path, suffix } = fromEntryKey(key) ?? fromWakeKey(key) ?? { path: "", suffix: "" };
    const isInside = path.endsWith("/"); // the check of a sub-workflow's result
    const run = this.#runs.find(isInside ? path.slice(0, -1) : path, at);
    if (!run) return undefined; // the result of the workflow, which is not a step
    run.failure = run.parked = undefined;
    if (kind === "wake") return this.#wake(run, row);
    if (kind === "error") return this.#fail(run, row);
    run.addAttempt(at);
    run.attempt = 1;
    if (kind === "suspended") {
      run.parked = toSuspendedStep(row, ++run.suspensions);
      return run;
    }
    const value = toResult(row);
    run.results.set(isInside ? `/${suffix}` : suffix, value);
    if (kind === "loop") this.#runs.beginLoop(run, row);
    else if (run.node.traits.shape === "wait") this.#wait(run, row, at);
    else if (run.node.type === "iteration") this.#runs.endIteration(run, at);
    return run;
  }

  #fail(run: StepRun, { id: row, key, at, body }: JournalRow): StepRun {
    const { isFinal, ...error } = JSON.parse(body!) as StoredError & { isFinal?: boolean };
    run.addAttempt(at, error, key);
    const isHeld = this.#suspendedBy === "command";
    const own = { row, at, message: error.message, entry: stableKeyOf(key) };
    run.failure = { ...own, isFinal, endsExecution: false, isHeld, delayFrom: this.#toTime(at) };
    if (isFinal !== true) run.attempt++;
    this.#runs.collectFailure(run, at);
    return run;
  }

  #wait(run: StepRun, row: JournalRow, at: number): void {
    if (this.#suspendedBy === "command") run.heldWait = row;
    else run.parked = toWaitingStep(run.node.traits, row, this.#toTime(at));
  }

  /** The time from which a wait counts. In a fork it is not before the fork, also if the clock was set back. */
  #toTime(at: number): number {
    const { fork, startAt } = this.#execution;
    return fork ? Math.max(at, startAt) : at;
  }

  /** Ends a wait by its time or its event. */
  #wake(run: StepRun, row: JournalRow): StepRun {
    this.#suspendedBy = undefined;
    run.readyAt = row.at;
    const input = fromRow(row);
    if ("wake" in input && run.node.traits.shape === "wait") run.results.set("", input.wake.value);
    return run;
  }

  #publish(events: readonly EventBody[], at: number, run?: StepRun, command?: Transition): void {
    for (const { type, from = "", status } of events) {
      if (type === "step-start") this.#runs.begin(from, at);
      else if (type === "step-complete") {
        this.#collectReleased(`${from}/`, at); // a loop ends after its items
        this.#runs.complete(from, status === "skipped" ? "skipped" : "success", at);
      } else if (type === "workflow-suspended")
        this.#suspendedBy = command?.to === "suspended" ? "command" : "decision";
      else if (type === "workflow-error" || type === "workflow-complete") {
        this.#endedAt = at;
        if (run?.failure) run.failure.endsExecution = true;
      }
    }
  }

  #onCommand(command: Transition): void {
    if (command.to !== "running") return;
    const { at } = command;
    if (command.isRetry) this.#retry(at);
    else if (!command.isWake) this.#resume(command.stepId, at);
    this.#suspendedBy = this.#endedAt = undefined;
    for (const run of this.#runs.all()) {
      if (run.failure?.isHeld) {
        run.failure.isHeld = false;
        run.failure.delayFrom = at;
        this.#released.push(run);
      }
      if (run.heldWait !== undefined) this.#wait(run, run.heldWait, at);
      run.heldWait = undefined;
    }
  }

  /** Ends the items with released failures, of the steps under this path. */
  #collectReleased(prefix: string, at: number): void {
    const inside = this.#released.filter(({ node }) => node.path.startsWith(prefix));
    if (inside.length === 0) return;
    this.#released = this.#released.filter((run) => !inside.includes(run));
    for (const run of inside) this.#runs.collectFailure(run, at);
  }

  #resume(stepId: string | undefined, at: number): void {
    const parked = this.#suspendedBy === "command" ? [] : this.#runs.parked();
    const target =
      stepId === undefined
        ? parked.find((run) => run.parked?.kind === "person")
        : parked.find(({ node }) => node.path === stepId);
    if (target) {
      target.parked = undefined;
      target.readyAt = at;
      return;
    }
    const node = stepId === undefined ? undefined : this.#tree.find(stepId);
    if (node && !node.parent) this.#goBack(node.stepIndex, at);
  }

  /** Steps from here on that have not ended were dropped. */
  #goBack(stepIndex: number, at: number): void {
    const verdicts = this.#judgeAll(at);
    for (const [run, { status, endAt }] of verdicts) {
      if (run.end || run.node.stepIndex < stepIndex) continue;
      if (run.isInFlight) run.addAttempt(at);
      run.end = { status: status === "error" ? "error" : "aborted", at: endAt ?? at };
    }
  }

  /** Failed steps continue, and so do the aborted ones beside them. */
  #retry(at: number): void {
    const endedAt = this.#endedAt ?? at;
    const verdicts = this.#judgeAll(endedAt);
    for (const run of this.#runs.all()) if (!run.outer && !run.end) revive(run);

    function revive(run: StepRun): void {
      const { endAt } = verdicts.get(run)!;
      if (run.isInFlight) run.addAttempt(endAt ?? endedAt);
      if (!run.parked) {
        // Its entry begins again, also if it was aborted between two attempts.
        run.failure = undefined;
        run.attempt = 1;
        run.readyAt = at;
      }
      for (const one of run.inner) if (!one.end) revive(one);
    }
  }
}

const toEventBody = ([from, status]: CopiedEvent): EventBody =>
  status ? { type: "step-complete", from, status } : { type: "step-start", from };

function toResult({ id, kind, body, bytes = 0 }: JournalRow): Value {
  if (kind === "loop") return undefined; // `beginLoop` reads it
  return bytes > maxInlineBytes && body === null ? { row: id, bytes } : toValue(body ?? undefined, id);
}
