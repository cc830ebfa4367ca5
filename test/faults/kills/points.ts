import { Store } from "../../../src/backends/embedded/store/store.ts";
import type { Transition } from "../../../src/engine/execution.ts";

/** What is written, and how often the small plans write it, at the least. */
const writes = {
  begin: ["the beginning of an execution", 11],
  "entry:value": ["the value of a step", 20],
  "entry:error": ["an attempt that failed", 5],
  "entry:suspended": ["a step that suspends", 5],
  "move:completed": ["the end of an execution", 4],
  "move:suspended": ["a suspension by a step", 5],
  "move:error": ["the failure of an execution", 1],
  "signal:suspended": ["a suspension by request", 1],
  "signal:running": ["a resume", 3],
  "signal:error": ["a cancellation", 2],
} as const;
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
  ...entries(writes).flatMap(([write, [what, most]]) =>
    entries(moments).map(([moment, when]) => ({ write, moment, title: `${when} ${what}`, most })),
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

  const { insertExecution, move, add, transaction, state, leftRunning } = Store.prototype;
  Object.assign(Store.prototype, {
    insertExecution(this: Store, ...args: Parameters<Store["insertExecution"]>) {
      ids.set(args[0], args[1].id);
      return around("begin", `${args[1].id} running`, () => insertExecution.apply(this, args));
    },
    move(this: Store, ...args: Parameters<Store["move"]>) {
      const [number, , next] = args;
      const run = (): boolean => move.apply(this, args);
      // What somebody decides from outside has a row of its own, which is written after this: only `before` is here.
      if (!isFromOutside(next)) return around(`move:${next.to}`, `${ids.get(number)} ${next.to}`, run);
      return armed?.moment === "before" ? around(`signal:${next.to}`, `${ids.get(number)} ${next.to}`, run) : run();
    },
    add(this: Store, ...args: Parameters<Store["add"]>) {
      const [number] = args;
      const { key, kind, body } = args.find((one) => typeof one === "object" && "kind" in one)!;
      const run = (): void => add.apply(this, args);
      if (kind !== "command") return around(`entry:${kind}`, `${ids.get(number)} ${key}`, run);
      const { to } = JSON.parse(body!) as Transition;
      return armed?.moment === "before" ? run() : around(`signal:${to}`, `${ids.get(number)} ${to}`, run);
    },
    transaction(this: Store, work: () => unknown) {
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
    leftRunning(this: Store) {
      const found = leftRunning.call(this);
      for (const { number, id } of found) ids.set(number, id);
      return found;
    },
  });
  return (point) => {
    armed = point;
    seen = 0;
  };
}

const isFromOutside = (next: Transition): boolean =>
  next.to === "running" || "cancellation" in next || (next.to === "suspended" && next.pending.length === 0);
