import { fromRow, type JournalRow } from "../runs/journal-row.ts";
import { prefixOf } from "../walk/journal-keys.ts";
import { findFailure, judge, type StepOutcome } from "./judge-steps.ts";
import { none, type SharedValue } from "./shared-value.ts";
import { createFilter, toRecord, type DelayOf, type StepSelection } from "./select-steps.ts";
import { hasOwnPaths } from "../definition/step-traits.ts";
import type { StepRecord } from "./step-record.ts";
import { StepRun } from "./step-run.ts";
import { toIterationNode, type StepNode, type StepTree } from "./step-tree.ts";

interface RunsOptions extends StepSelection {
  readonly delayOf?: DelayOf | undefined;
}

/**
 * The step runs of one execution, by path.
 *
 * The items of a loop have no events of their own. An item begins with its first step; one with a `map` when it has a place
 * (`fill`). It ends with its last step; an iteration of other loops ends with its condition. Then its runs are dropped, and
 * the requested records remain.
 */
export class StepRuns {
  readonly #tree: StepTree;
  readonly #input: SharedValue;
  readonly #isAsked: (record: StepRecord) => boolean;
  /** Max records of ended iterations that a loop keeps: one page, and one more if there are more. */
  readonly #max: number;
  readonly #after: number;
  readonly #delayOf: DelayOf;
  /** The last run of each step. */
  readonly #runs = new Map<string, StepRun>();
  /** The loops in which another item may begin. */
  readonly #unfilled = new Set<StepRun>();
  #order = 0;

  constructor(tree: StepTree, options: RunsOptions, input: SharedValue) {
    this.#tree = tree;
    this.#input = input;
    this.#isAsked = createFilter(tree, options);
    this.#max = (options.limit ?? Infinity) + 1;
    this.#after = options.after ?? 0;
    this.#delayOf = options.delayOf ?? (() => 0);
  }

  all(): Iterable<StepRun> {
    return this.#runs.values();
  }

  /** The run at a path. An iteration begins if it has not. */
  find(path: string, at: number): StepRun | undefined {
    const found = this.#runs.get(path);
    if (found) return found;
    const iteration = this.#tree.parse(path)?.iteration;
    const loop = iteration === undefined ? undefined : this.#runs.get(path.slice(0, path.lastIndexOf("/")));
    return loop && !loop.end ? this.#beginIteration(loop, iteration!, at) : undefined;
  }

  /** A step begins. */
  begin(path: string, at: number): void {
    const node = this.#tree.find(path);
    if (!node) return;
    const outer = this.#outerOf(node, path, at);
    for (const one of outer?.inner ?? []) endFailed(one);
    const before = node.before && this.#runs.get(node.before.path);
    const input = outer ? outer.toInnerInput(node) : node.before ? (before?.sharedOutput ?? none) : this.#input;
    const last = this.#runs.get(path);
    if (last?.loop) this.#forget(last);
    const own = path === node.path ? node : { ...node, path };
    this.#runs.set(path, new StepRun(own, ++this.#order, at, input, outer));
  }

  #outerOf({ parent }: StepNode, path: string, at: number): StepRun | undefined {
    if (!parent) return undefined;
    const prefix = prefixOf(path);
    return hasOwnPaths(parent.traits) ? this.find(prefix.slice(0, -1), at) : this.#runs.get(prefix + parent.stepId);
  }

  /** A step has completed. */
  complete(path: string, status: "success" | "skipped", at: number): void {
    const run = this.#runs.get(path);
    if (!run) return;
    run.complete(status, at);
    const { outer } = run;
    if (outer?.isItem && outer.isBodyComplete) this.endIteration(outer, at);
  }

  /** The items of `andForEach` are known. */
  beginLoop(run: StepRun, row: JournalRow): void {
    const input = fromRow(row);
    if (!run.loop || !("result" in input) || !("loop" in input.result)) return;
    run.loop.begin(row.id, input.result.loop, input.result.value, run.input);
    run.results.set("?", input.result.value);
    this.#unfilled.add(run);
  }

  /** Begins the items that have a place. Those without a `map` began with their first step. */
  fill(at: number): void {
    for (const run of this.#unfilled) {
      if (isTooLate(run)) continue; // a retry lets it begin
      while (!isOver(run) && run.loop!.hasNext(run.inner.length)) this.#beginIteration(run, run.loop!.begun, at);
      this.#unfilled.delete(run);
    }
  }

  #beginIteration(run: StepRun, index: number, at: number): StepRun {
    const loop = run.loop!; // only loops have iterations
    loop.begun = Math.max(loop.begun, index + 1);
    const node = toIterationNode(run.node, index);
    const iteration = new StepRun(node, ++this.#order, at, loop.inputOf(index, run.input), run);
    this.#runs.set(node.path, iteration);
    return iteration;
  }

  /** An iteration ended; with a failure, if its loop collects them. */
  endIteration(iteration: StepRun, at: number, error?: string): void {
    const outer = iteration.outer!; // its loop
    const loop = outer.loop!;
    if (error === undefined) iteration.complete("success", at);
    else iteration.end = { status: "error", at };
    outer.inner.splice(outer.inner.indexOf(iteration), 1);
    loop.end(iteration.iteration!, iteration.end!.status, iteration.sharedOutput, error);
    const verdicts = new Map<StepRun, StepOutcome>();
    judge(iteration, verdicts, undefined, false);
    for (const run of verdicts.keys()) {
      if (run.order <= this.#after) continue; // on an earlier page
      const record = toRecord(run, verdicts, this.#delayOf);
      if (this.#isAsked(record)) loop.keep([record], this.#max);
    }
    for (const run of verdicts.keys()) if (run.loop) loop.keep(run.loop.records, this.#max);
    this.#forget(iteration);
    this.#unfilled.add(outer);
  }

  /** Ends the innermost iteration that a failure ends without its loop. */
  collectFailure(run: StepRun, at: number): void {
    for (let one: StepRun | undefined = run; one; one = one.outer) {
      if (one.outer?.loop?.start?.onError !== "collect") continue;
      const failure = findFailure(one, false);
      if (failure && !one.end) this.endIteration(one, at, failure.message);
      return;
    }
  }

  /** Drops a run and those inside it. */
  #forget(run: StepRun): void {
    if (this.#runs.get(run.node.path) === run) this.#runs.delete(run.node.path);
    this.#unfilled.delete(run);
    for (const one of run.inner) this.#forget(one);
  }

  /** The steps that wait and can continue, in the order of the definition. */
  parked(): StepRun[] {
    const found: StepRun[] = [];
    const visit = (run: StepRun): void => {
      if (run.end) return;
      if (run.parked) found.push(run);
      run.inner.forEach(visit);
    };
    for (const run of this.#runs.values()) if (!run.outer) visit(run);
    return found;
  }

  /** The records that are asked for, in the order of begin. */
  records(verdicts: ReadonlyMap<StepRun, StepOutcome>): StepRecord[] {
    const found: StepRecord[] = [];
    for (const run of this.#runs.values()) {
      const record = toRecord(run, verdicts, this.#delayOf);
      if (this.#isAsked(record)) found.push(record);
      for (const one of run.loop?.records ?? []) found.push(one);
    }
    return found.toSorted((one, other) => one.order - other.order);
  }
}

/** Ends a step that has failed. The next step begins only if the step around both has collected the failure. */
function endFailed(run: StepRun): void {
  const failure = run.end ? undefined : findFailure(run, false);
  if (failure) run.end = { status: "error", row: failure.row, at: failure.at, message: failure.message };
}

/** True if a step ended, or one around it. */
function isOver(run: StepRun): boolean {
  for (let one: StepRun | undefined = run; one; one = one.outer) if (one.end) return true;
  return false;
}

/**
 * True if a step around a loop has failed before the loop could begin: both were recorded while the execution was suspended
 * by request.
 */
function isTooLate({ outer, loop }: StepRun): boolean {
  const { row, begun } = loop!;
  if (begun > 0) return false;
  for (let one = outer; one; one = one.outer) {
    const failure = findFailure(one, false);
    if (failure && failure.row < row) return true;
  }
  return false;
}
