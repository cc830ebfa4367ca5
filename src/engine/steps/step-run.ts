import type { LoopStart } from "../walk/decision.ts";
import type { StoredError } from "../execution.ts";
import type { JournalRow } from "../runs/journal-row.ts";
import { type Value, joinValues, toItems, wrapValue } from "../walk/value.ts";
import type { ParkedStep } from "./parked-step.ts";
import { none, redacted, type SharedValue } from "./shared-value.ts";
import type { StepAttempt, StepRecord, StepStatus } from "./step-record.ts";
import type { StepNode } from "./step-tree.ts";

/** Max attempts of a step that are kept: the newest ones. */
const maxAttempts = 100;

/** A failed attempt. `isFinal` is undefined in files of older versions. */
export interface StepFailure {
  /** The number of its row. */
  readonly row: number;
  readonly at: number;
  readonly message: string;
  /** The stable key of its entry. */
  readonly entry: string;
  readonly isFinal: boolean | undefined;
  /** True if the execution failed with it. */
  endsExecution: boolean;
  /** It was recorded while the execution was suspended by request: nothing follows from it before the resume. */
  isHeld: boolean;
  /** The time from which the delay of the next attempt counts. */
  delayFrom: number;
}

/** The end of a step; if it has failed, also the row and the message of its failure. */
interface StepEnd extends Partial<Pick<StepFailure, "row" | "message">> {
  readonly status: "success" | "skipped" | "error" | "aborted";
  readonly at: number;
}

/** A step that began, or an iteration of a loop, as far as the journal has been read. */
export class StepRun {
  readonly node: StepNode;
  /** The place in the order of begin. */
  readonly order: number;
  readonly startAt: number;
  readonly input: SharedValue;
  /** The run of the step, or the iteration, that contains this one. */
  readonly outer: StepRun | undefined;
  /** The steps inside this one that began in this run. Of a loop: the iterations that have not ended. */
  readonly inner: StepRun[] = [];
  /** The iterations, if it is a loop. */
  readonly loop: LoopRun | undefined;
  /** The number, if it is an iteration. */
  readonly iteration: number | undefined;
  readonly attempts: StepAttempt[] = [];
  /** The number of the next attempt. */
  attempt: number = 1;
  /** The time at which the next attempt starts, as far as the journal says. */
  readyAt: number;
  /** The last attempt has failed. */
  failure: StepFailure | undefined;
  /** The number of waits for a person. */
  suspensions: number = 0;
  /** It waits for a person, a time or an event. */
  parked: ParkedStep | undefined;
  /** The entry of a wait that begins after the resume: the execution is suspended by request. */
  heldWait: JournalRow | undefined;
  /** The results of its own code by suffix: `` a function, `?` a condition, `<` and `/>` checks, `>` a map. */
  readonly results: Map<string, Value> = new Map();
  /** Set when it has completed, or nothing continues it: the execution went back, or the step around it collected its failure. */
  end: StepEnd | undefined;
  /** The output. Undefined before it has completed. */
  output: SharedValue | undefined;

  constructor(node: StepNode, order: number, startAt: number, input: SharedValue, outer: StepRun | undefined) {
    this.node = node;
    this.order = order;
    this.startAt = startAt;
    this.input = input;
    this.outer = outer;
    this.readyAt = startAt;
    if (node.traits.shape === "loop") this.loop = new LoopRun();
    if (outer?.loop) this.iteration = Number(node.stepId);
    outer?.inner.push(this);
  }

  /** The output, for the other steps that have it. */
  get sharedOutput(): SharedValue {
    if (this.output?.value === undefined) return none;
    return this.node.isRedacted ? redacted : this.output;
  }

  complete(status: "success" | "skipped", at: number): void {
    this.end = { status, at };
    this.output = this.#toOutput(status);
    if (this.outer) this.outer.readyAt = at;
  }

  #toOutput(status: "success" | "skipped"): SharedValue {
    const { node, inner, results, input, loop } = this;
    const { shape, passesOn } = node.traits;
    switch (shape) {
      case "leaf":
        return passesOn ? input : { value: results.get("") };
      case "wait":
        return passesOn ? input : { value: results.get("") ?? "null" };
      case "sequence":
        return inner.at(-1)?.sharedOutput ?? none;
      case "choice":
        if (passesOn) return status === "skipped" ? input : (inner[0]?.sharedOutput ?? none);
        return joinShared(node.children.map(({ index }) => this.#find(index)?.sharedOutput ?? none));
      case "all":
        return joinShared(inner.map((one) => one.sharedOutput));
      case "race":
        return inner.find(({ end }) => end?.status === "success" || end?.status === "skipped")?.sharedOutput ?? none;
      case "child":
        return results.has(">") ? { value: results.get(">") } : this.#toResult();
      case "loop":
        return loop?.output ?? none;
    }
  }

  /** The run of a step inside this one, by its place in the definition. */
  #find(index: number): StepRun | undefined {
    return this.inner.findLast(({ node }) => node.index === index);
  }

  /** The input of a step inside this one. */
  toInnerInput({ before }: StepNode): SharedValue {
    if (before) return this.#find(before.index)?.sharedOutput ?? none;
    const { node, input, results } = this;
    if (node.traits.shape === "child") return this.#checkedInput;
    return this.isItem && results.has("<") ? { value: results.get("<") } : input;
  }

  /** The input of the first step in a sub-workflow. The check of a replaced value has seen the value itself. */
  get #checkedInput(): SharedValue {
    const { input, results } = this;
    if (!results.has("<")) return input;
    return input.isReplaced ? redacted : { value: results.get("<") };
  }

  #toResult(): SharedValue {
    const last = this.inner.at(-1)?.sharedOutput ?? this.#checkedInput;
    if (!this.results.has("/>")) return last;
    return last.isReplaced ? redacted : { value: this.results.get("/>") };
  }

  /** Adds an attempt that ended. One that has failed has the key of its row. */
  addAttempt(endAt: number, error?: StoredError, key?: string): void {
    this.attempts.push({ attempt: this.attempt, startAt: this.readyAt, endAt, ...(error && { error, key }) });
    if (this.attempts.length > maxAttempts) this.attempts.shift();
    this.readyAt = endAt;
  }

  /** True if its own code has started and has no result yet. */
  get isInFlight(): boolean {
    const { node, inner, results, parked, failure } = this;
    if (parked || failure) return false;
    if (this.iteration !== undefined && !this.isItem) return this.isBodyComplete && !results.has("?");
    if (inner.length > 0) return false;
    const { shape, passesOn, items } = node.traits;
    if (shape === "choice") return results.size < (passesOn ? 1 : node.children.length);
    // An item that began without a step is in its `map`.
    return (shape === "leaf" || shape === "wait" || items === "list") && results.size === 0;
  }

  /** True for an item of a list. */
  get isItem(): boolean {
    return this.iteration !== undefined && this.node.traits.items === "list";
  }

  /** True if the last step of an iteration has completed. */
  get isBodyComplete(): boolean {
    const last = this.inner.at(-1);
    return last?.end !== undefined && last.node.index === this.node.children.at(-1)?.index;
  }
}

/** The iterations of a loop. Of ended ones it keeps the number, the output and the requested records. */
export class LoopRun {
  /** The beginning of `andForEach`; undefined before, and for the other loops. */
  start: LoopStart | undefined;
  /** The row number of its beginning. */
  row: number = 0;
  /** The number of iterations that began. */
  begun = 0;
  /** The number of iterations that ended, by status. */
  readonly ended: Map<StepStatus, number> = new Map();
  readonly #outputs: SharedValue[] = [];
  #last: SharedValue = none;
  #items: (index: number) => SharedValue = () => none;
  #records: StepRecord[] = [];

  /** Takes the beginning of `andForEach`: its items are its own value, or its `data`. */
  begin(row: number, start: LoopStart, own: Value, data: SharedValue): void {
    this.row = row;
    this.start = start;
    const source = start.isData ? data : { value: own };
    if (source.value === undefined || source.value === redacted.value) {
      this.#items = () => source;
      return;
    }
    const items = toItems(source.value, start.count);
    this.#items = (index) => ({ value: items(index), isReplaced: source.isReplaced });
  }

  /** The input of an iteration: an item, or the output of the iteration before. */
  inputOf(index: number, input: SharedValue): SharedValue {
    if (this.start) return this.#items(index);
    return index === 0 ? input : this.#last;
  }

  /** True if another item begins now. */
  hasNext(open: number): boolean {
    return this.start !== undefined && this.begun < this.start.count && open < this.start.concurrency;
  }

  /** An iteration ended: with an output, or in a loop that collects them with a failure. */
  end(index: number, status: StepStatus, output: SharedValue, error: string | undefined): void {
    this.ended.set(status, (this.ended.get(status) ?? 0) + 1);
    this.#last = output;
    if (!this.start) return;
    this.#outputs[index] = this.start.onError === "collect" ? toCollected(output, error) : output;
  }

  get output(): SharedValue {
    if (!this.start) return this.#last;
    return joinShared(this.#outputs);
  }

  /** The records of steps in iterations that ended. */
  get records(): readonly StepRecord[] {
    return this.#records;
  }

  /** Adds such records. The first `max` of them are kept, in the order of begin. */
  keep(records: readonly StepRecord[], max: number): void {
    for (const record of records) this.#records.push(record);
    if (this.#records.length > 2 * max)
      this.#records = this.#records.toSorted((one, other) => one.order - other.order).slice(0, max);
  }
}

function toCollected({ value, isReplaced }: SharedValue, error: string | undefined): SharedValue {
  if (error !== undefined) return { value: JSON.stringify({ status: "error", error }) };
  return { value: wrapValue('{"status":"success","value":', value, "}"), isReplaced };
}

/** The array of values. */
const joinShared = (values: readonly SharedValue[]): SharedValue => ({
  value: joinValues(values.map(({ value }) => value)),
  isReplaced: values.some(({ isReplaced }) => isReplaced),
});
