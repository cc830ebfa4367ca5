import { EventTable } from "../../../src/backends/embedded/store/tables/event-table.ts";
import { Store } from "../../../src/backends/embedded/store/store.ts";
import { ProcessTable } from "../../../src/backends/embedded/store/tables/process-table.ts";
import { WaitTable } from "../../../src/backends/embedded/store/tables/wait-table.ts";
import { eventOf } from "../../../src/engine/runs/journal-row.ts";
import type { Transition } from "../../../src/engine/execution.ts";
import { bySize } from "../../harness/size.ts";

/** What is written, how often the small plans write it at the least, and its only moment in the quick size. */
const writes = {
  begin: ["the beginning of an execution", 13],
  child: ["the beginning of a child", 4, "after"],
  fork: ["a fork", 3, "after"],
  "entry:value": ["the value of a step", 20],
  "entry:error": ["an attempt that failed", 5, "inside"],
  "entry:suspended": ["a step that suspends", 5, "after"],
  "move:completed": ["the end of an execution", 4],
  "move:suspended": ["a suspension by a step", 5, "before"],
  "move:error": ["the failure of an execution", 1, "inside"],
  "signal:suspended": ["a suspension by request", 1, "after"],
  "signal:running": ["a resume", 3, "inside"],
  "signal:error": ["a cancellation", 2, "before"],
  "child:error": ["the cancellation of a child with its parent", 1, "before"],
  retry: ["a retry", 2, "after"],
  "entry:loop": ["the beginning of a loop", 1, "inside"],
  "wake:time": ["the end of a sleep or a deadline", 5, "inside"],
  "wake:event": ["an event that a wait takes", 4, "after"],
  "event:early": ["an event that is sent before an execution waits for it", 2, "inside"],
  "event:awaited": ["an event that is sent while an execution waits for it", 3, "after"],
  "waits:add": ["the timers and waits of a suspension", 5, "before"],
  "waits:rest": ["the timer of an execution that rests", 1, "after"],
  "waits:remove": ["the removal of timers and waits", 5, "inside"],
} as const;
/** Whether only an execution that waits for a time or an event comes by this point. */
export const isOfWaits = ({ write }: Pick<Point, "write">): boolean => /^(wake|event|waits)/.test(write);
const moments = {
  before: "before it writes",
  inside: "inside the transaction, when it has written",
  after: "after the commit, when nobody has been told, of",
} as const;

export interface Point {
  readonly write: keyof typeof writes | "commit";
  readonly moment: keyof typeof moments;
  /** At which of these writes. */
  readonly nth: number;
}
/** A point at which the process can be made to end itself. */
export interface NamedPoint extends Omit<Point, "nth"> {
  readonly title: string;
  readonly most: number;
}
export const points: readonly NamedPoint[] = [
  ...entries(writes).flatMap(([write, [what, most, only]]) =>
    entries(moments)
      .filter(([moment]) => bySize(0, 1) === 1 || (only ?? moment) === moment)
      .map(([moment, when]) => ({ write, moment, title: `${when} ${what}`, most })),
  ),
  { write: "commit", moment: "before", title: "before the commit of whatever it has written", most: 15 },
];
function entries<T extends object>(table: T): [keyof T & string, T[keyof T]][] {
  return Object.entries(table) as [keyof T & string, T[keyof T]][]; // the keys that the table was written with
}
export const toName = ({ write, moment }: Omit<Point, "nth">): string => `${write}:${moment}`;

/**
 * Ends the process at a point of the store, once one is armed. `mark` is called just before, with what was being written:
 * `<point> <execution> <key or status>`.
 */
export function guard(mark: (line: string) => void): (point: Point) => void {
  let armed: Point | undefined;
  let seen = 0;
  /** What dies as soon as the open transaction is committed. */
  let doomed: string | undefined;
  const ids = new Map<number, string>();

  function die(what: string): void {
    mark(`${toName(armed!)} ${what}`);
    process.kill(process.pid, "SIGKILL");
  }
  function around<T>(write: string, what: string, run: () => T): T {
    if (armed?.write !== write || ++seen !== armed.nth) return run();
    if (armed.moment === "before") die(what);
    const result = run();
    if (armed.moment === "inside") die(what);
    doomed = what;
    return result;
  }

  let waits: WaitTable | undefined;
  const idOf = (number: number): string => ids.get(number) ?? "-";
  const { add: addEvent } = EventTable.prototype;
  const { add: addWaits, rest, remove } = WaitTable.prototype;
  Object.assign(EventTable.prototype, {
    add(this: EventTable, ...args: Parameters<EventTable["add"]>) {
      const { id, name, key } = args[2];
      const isAwaited = waits!.waiting({ name: name!, key: key! }, 0, 1).length > 0;
      around(isAwaited ? "event:awaited" : "event:early", `${key} ${id}`, () => addEvent.apply(this, args));
    },
  });
  Object.assign(WaitTable.prototype, {
    add(this: WaitTable, ...args: Parameters<WaitTable["add"]>) {
      around("waits:add", `${idOf(args[0])} suspended`, () => addWaits.apply(this, args));
    },
    rest(this: WaitTable, ...args: Parameters<WaitTable["rest"]>) {
      around("waits:rest", `${idOf(args[0])} running`, () => rest.apply(this, args));
    },
    remove(this: WaitTable, number: number) {
      around("waits:remove", `${idOf(number)} running`, () => remove.call(this, number));
    },
  });
  const { save, insertExecution, move, add, transaction, state, stateOf } = Store.prototype;
  const { leftRunning } = ProcessTable.prototype;
  Object.assign(Store.prototype, {
    save(this: Store, ...args: Parameters<Store["save"]>) {
      const [{ execution }, { row }] = args;
      const run = () => save.apply(this, args);
      // With the results that it copies.
      return execution.fork && !row ? around("fork", `${execution.id} running`, run) : run();
    },
    insertExecution(this: Store, ...args: Parameters<Store["insertExecution"]>) {
      const [number, { id, fork }] = args;
      ids.set(number, id);
      const run = (): boolean => insertExecution.apply(this, args);
      return fork ? run() : around(isChild(id) ? "child" : "begin", `${id} running`, run);
    },
    move(this: Store, ...args: Parameters<Store["move"]>) {
      const [number, , next] = args;
      const run = (): boolean => move.apply(this, args);
      // What somebody decides from outside has a row of its own, which is written after this: only `before` is here.
      if (!isFromOutside(next)) return around(`move:${next.to}`, `${ids.get(number)} ${next.to}`, run);
      const write = toWrite(next, idOf(number));
      return armed?.moment === "before" ? around(write, `${idOf(number)} ${next.to}`, run) : run();
    },
    add(this: Store, ...args: Parameters<Store["add"]>) {
      const [number] = args;
      const { key, kind, body } = args.find((one) => typeof one === "object" && "kind" in one)!;
      const run = (): void => add.apply(this, args);
      if (kind === "wake")
        return around(eventOf({ body }) === undefined ? "wake:time" : "wake:event", `${idOf(number)} ${key}`, run);
      if (kind !== "command") return around(`entry:${kind}`, `${ids.get(number)} ${key}`, run);
      const next = JSON.parse(body!) as Transition;
      const write = toWrite(next, idOf(number));
      return armed?.moment === "before" ? run() : around(write, `${idOf(number)} ${next.to}`, run);
    },
    transaction(this: Store, work: () => unknown) {
      ({ waits } = this);
      const result = transaction.call(this, () => {
        const values = work();
        around("commit", "- -", () => undefined);
        return values;
      });
      if (doomed !== undefined) die(doomed);
      return result;
    },
    // Whose number it is, for the mark.
    state(this: Store, id: string) {
      const found = state.call(this, id);
      if (found) ids.set(found.number, id);
      return found;
    },
    stateOf(this: Store, number: number) {
      const found = stateOf.call(this, number);
      if (found) ids.set(number, found.execution.id);
      return found;
    },
  });
  ProcessTable.prototype.leftRunning = async function* (this: ProcessTable) {
    for await (const found of leftRunning.call(this)) {
      for (const { number, id } of found) ids.set(number, id);
      yield found;
    }
  };
  return (point) => {
    armed = point;
    seen = 0;
  };
}

/** The name of what somebody decides from outside. */
function toWrite(next: Transition, id: string): string {
  if (next.to === "running" && next.isRetry) return "retry";
  return `${next.to === "error" && isChild(id) ? "child" : "signal"}:${next.to}`;
}
const isChild = (id: string): boolean => id.startsWith("child:");
const isFromOutside = (next: Transition): boolean =>
  next.to === "running" || "cancellation" in next || (next.to === "suspended" && next.pending.length === 0);
