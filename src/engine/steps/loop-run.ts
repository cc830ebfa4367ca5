import type { LoopStart } from "../walk/decision.ts";
import { joinValues, toItems, wrapValue, type Value } from "../walk/value.ts";
import { none, redacted, type SharedValue } from "./shared-value.ts";
import type { StepRecord, StepStatus } from "./step-record.ts";

/** The iterations of a loop. Of those that have ended it keeps the number, the output, and the records that are asked for. */
export class LoopRun {
  /** The beginning of `andForEach`; undefined before, and for the other loops. */
  start: LoopStart | undefined;
  /** The number of the row of its beginning. */
  row: number = 0;
  /** The number of iterations that have begun. */
  begun = 0;
  /** The number of iterations that have ended, by status. */
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

  /** Whether another item begins now. */
  hasNext(open: number): boolean {
    return this.start !== undefined && this.begun < this.start.count && open < this.start.concurrency;
  }

  /** An iteration has ended: with an output, or in a loop that collects them with a failure. */
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

  /** The records of steps in iterations that have ended. */
  get records(): readonly StepRecord[] {
    return this.#records;
  }

  /** Adds such records. The first `most` of them in the order of begin are kept. */
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
export const joinShared = (values: readonly SharedValue[]): SharedValue => ({
  value: joinValues(values.map(({ value }) => value)),
  isReplaced: values.some(({ isReplaced }) => isReplaced),
});
