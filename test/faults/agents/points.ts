import { MessageStore } from "../../../src/backends/embedded/store/message-store.ts";
import { Store } from "../../../src/backends/embedded/store/store.ts";

/** Where the process ends itself: in the model, in a tool, in a step, while a turn is stored or a step recorded. */
export interface Point {
  readonly point: string;
  /** What was asked; of a step, its idempotency key. */
  readonly key: string;
}
/** Inside the model's own code, in order, then while the turn is stored, then while the step is recorded. */
export const modelPoints = ["asked", "half", "said", "finished"] as const;
export const toolPoints = ["tool", "asked again"] as const;
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
  function around(write: string, isIt: (key: string) => boolean, run: () => void): void {
    const [point, moment] = armed?.point.split(":") ?? [];
    if (point !== write || !isIt(armed!.key)) return run();
    if (moment === "before") die();
    run();
    if (moment === "inside") die();
    doomed = true;
  }

  const { replace } = MessageStore.prototype;
  const { add, transaction } = Store.prototype;
  MessageStore.prototype.replace = function (this: MessageStore, ...args) {
    const isIt = (key: string): boolean => args[1].some(({ models }) => models.includes(JSON.stringify(key)));
    around("turn", isIt, () => replace.apply(this, args));
  };
  Store.prototype.add = function (this: Store, ...args: Parameters<Store["add"]>) {
    const row = args.find((one) => typeof one === "object" && "kind" in one)!;
    const isIt = (key: string): boolean => key.endsWith(`/${row.key.replace(/#\d+$/, "")}`);
    around("entry", isIt, () => add.apply(this, args));
  };
  Store.prototype.transaction = function <T>(this: Store, work: () => T): T {
    const result = transaction.call(this, work) as T;
    if (doomed) die();
    return result;
  };
  return { pass, arm: (point: Point): void => void (armed = point) };
}
