import { openSync, readSync } from "node:fs";
import type { ChildName } from "./child.ts";

/** One run of one entry, as its own code told it. */
export interface Line {
  /** Its place in the log, which is the clock of the whole harness. */
  readonly at: number;
  /** Which start of the process it belongs to: a kill lies between two lives. */
  readonly life: number;
  readonly what: "begin" | "end";
  readonly path: string;
  readonly attempt: number;
  readonly token: string;
  /** What it was given, or how it ended. */
  readonly rest: string;
}
/** A child that a step has started, or found again. */
interface Child {
  readonly name: ChildName;
  readonly id: string;
}
/** Where a process ended itself. */
export interface Mark {
  readonly at: number;
  readonly life: number;
  readonly point: string;
  readonly execution: string;
  /** The key of the entry, or the status that was being reached. */
  readonly what: string;
}

/** What really ran, from the file that the steps write themselves. */
export class Log {
  readonly marks: Mark[] = [];
  /** What the server itself has complained about, and steps that began after all was over. */
  readonly complaints: string[] = [];
  /** Executions that have been checked to their end. */
  readonly sealed: Set<string> = new Set();
  readonly #file: number;
  readonly #buffer = Buffer.alloc(65_536);
  readonly #lines = new Map<string, Line[]>();
  readonly #children = new Map<string, Child[]>();
  readonly #waits = new Map<string, { at: number; life: number }[]>();
  #rest = "";
  #place = 0;
  #count = 0;
  #life = 0;

  constructor(path: string) {
    this.#file = openSync(path, "a+");
  }

  /** How many lines there are now. What begins from here on has a higher place. */
  now(): number {
    for (;;) {
      const length = readSync(this.#file, this.#buffer, 0, this.#buffer.length, this.#place);
      if (length === 0) return this.#count;
      this.#place += length;
      const lines = (this.#rest + this.#buffer.toString("utf8", 0, length)).split("\n");
      this.#rest = lines.pop()!;
      for (const line of lines) this.#take(line);
    }
  }

  #take(text: string): void {
    const at = ++this.#count;
    const [what = "", execution = "", key = "", attempt, token = "", ...rest] = text.split(" ");
    if (what === "life") this.#life = Number(execution);
    else if (what === "complaint") this.complaints.push(text);
    else if (what === "child") append(this.#children, execution, { name: key as ChildName, id: attempt! });
    else if (what === "wait") append(this.#waits, execution, { at, life: this.#life });
    else if (what === "kill")
      this.marks.push({ at, life: this.#life, point: execution, execution: key, what: attempt! });
    else if (what === "begin" || what === "end") {
      if (what === "begin" && this.sealed.has(execution)) this.complaints.push(`after its end: ${text}`);
      const path = key.slice(execution.length + 1);
      // A key that is not the execution's own would be found here: nobody expects its path.
      const own = key.startsWith(`${execution}/`) ? path : `not of this execution: ${key}`;
      const line = {
        at,
        life: this.#life,
        what,
        path: own,
        attempt: Number(attempt),
        token,
        rest: rest.join(" "),
      } as const;
      append(this.#lines, execution, line);
    } else throw new Error(`not a line of the log: ${text}`);
  }

  of(execution: string): readonly Line[] {
    this.now();
    return this.#lines.get(execution) ?? [];
  }

  /** The children that an execution has started, each as often as it was told its id. */
  childrenOf(execution: string): readonly Child[] {
    this.now();
    return this.#children.get(execution) ?? [];
  }

  /** The places at which a step of an execution has begun to wait for its children. */
  waitsOf(execution: string): readonly { readonly at: number; readonly life: number }[] {
    this.now();
    return this.#waits.get(execution) ?? [];
  }

  get executions(): Iterable<string> {
    return this.#lines.keys();
  }

  /** How many executions had code at work when this life ended. */
  atWorkAtTheEndOf(life: number): number {
    this.now();
    let count = 0;
    for (const lines of this.#lines.values()) {
      const last = lines.findLastIndex((line) => line.life < life);
      let open = 0;
      for (const { what, life: own } of lines.slice(last + 1)) if (own === life) open += what === "begin" ? 1 : -1;
      if (open > 0) count++;
    }
    return count;
  }
}

function append<T>(lists: Map<string, T[]>, key: string, one: T): void {
  const list = lists.get(key);
  if (list) list.push(one);
  else lists.set(key, [one]);
}
