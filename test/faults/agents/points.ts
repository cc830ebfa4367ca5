import { MessageStore } from "../../../src/backends/embedded/store/message-store.ts";
import { RecordTable } from "../../../src/backends/embedded/store/tables/record-table.ts";
import { Store } from "../../../src/backends/embedded/store/store.ts";

/** Where the process ends itself: in the model, in a tool, in a step, while a turn is stored, a call or a step recorded. */
export interface Point {
  readonly point: string;
  /** What was asked; of a step, its idempotency key; of a record, that key and the name of the record. */
  readonly key: string;
}
/** Inside the model's own code, in order, then while the turn is stored, then while the step is recorded. */
export const modelPoints = ["asked", "half", "said", "finished"] as const;
export const recordPoints = ["record:before", "record:inside", "record:after"] as const;
/** While the user's message is stored, with which a durable turn begins. */
export const beginPoints = ["begin:before", "begin:inside", "begin:after"] as const;
export const turnPoints = ["turn:before", "turn:inside", "turn:after"] as const;
export const entryPoints = ["entry:before", "entry:inside", "entry:after"] as const;

/** Ends the process at a point, once one is armed; `mark` is called just before. */
export function guard(mark: (point: Point) => void) {
  let armed: Point | undefined;
  /** It ends as soon as the open transaction is committed. */
  let doomed = false;

  function die(): void {
    mark(armed!);
    process.kill(process.pid, "SIGKILL");
  }
  function pass(point: string, key: string): void {
    if (armed?.point === point && armed.key === key) die();
  }
  function around<T>(write: string, isIt: (key: string) => boolean, run: () => T): T {
    const [point, moment] = armed?.point.split(":") ?? [];
    if (point !== write || !isIt(armed!.key)) return run();
    if (moment === "before") die();
    const result = run();
    if (moment === "inside") die();
    doomed = true;
    return result;
  }

  const { replace } = MessageStore.prototype;
  const { add, transaction } = Store.prototype;
  const { add: addRecord } = RecordTable.prototype;
  MessageStore.prototype.replace = function (this: MessageStore, ...args) {
    const isIt = (key: string): boolean => args[1].some(({ models }) => models.includes(JSON.stringify(key)));
    const isAnswered = args[1].some(({ role }) => role === "assistant");
    around(isAnswered ? "turn" : "begin", isIt, () => replace.apply(this, args));
  };
  Store.prototype.add = function (this: Store, ...args: Parameters<Store["add"]>) {
    const row = args.find((one) => typeof one === "object" && "kind" in one)!;
    const path = toPath(row.key);
    // Every turn has the same path. The one before may still be about to end.
    const isMeant = (key: string): boolean =>
      path !== "turn" || this.stateOf(args[0])!.execution.input.includes(JSON.stringify(key.slice(0, -"/turn".length)));
    const isIt = (key: string): boolean => key.endsWith(`/${path}`) && isMeant(key);
    around("entry", isIt, () => add.apply(this, args));
  };
  RecordTable.prototype.add = function (this: RecordTable, ...args) {
    const [, , step, name] = args;
    const isIt = (key: string): boolean => key.endsWith(`/${toPath(step)} ${toRecordName(name)}`);
    return around("record", isIt, () => addRecord.apply(this, args));
  };
  Store.prototype.transaction = function <T>(this: Store, work: () => T): T {
    const result = transaction.call(this, work) as T;
    if (doomed) die();
    return result;
  };
  return { pass, arm: (point: Point): void => void (armed = point) };
}

/** The step that a row of the journal, or a record, belongs to. */
export const toPath = (key: string): string => key.replace(/#\d+$/, "");
/** A step calls one tool at the most: the id of the call does not matter. */
export const toRecordName = (name: string): string => name.replace(/^tool .*/, "tool");
