import assert from "node:assert/strict";
import type { EventBody } from "../../../../../src/engine/events.ts";
import type { Tree } from "../../make.ts";
import { deadlineMs, keyOf } from "../../values.ts";
import { copiesOf, happenings, type Row, type Stored } from "../stored.ts";
import {
  drop,
  hasFailed,
  isDone,
  isInFlight,
  isOpen,
  leavesOf,
  openRuns,
  type Entry,
  type Leaf,
  type Run,
} from "./run.ts";
import { beginStep, settle } from "./settle.ts";

/**
 * An execution as it follows from the tree and the rows, without the engine: which steps have begun, what each branch waits
 * for, and when that is over. Written by hand from docs/workflows.md and docs/durability.md: it pulls what follows out of the
 * runs so far, where the engine pushes results through generators.
 */
export class Model {
  /** The last run of each step, by path, in the order of begin. */
  readonly runs: Map<string, Run> = new Map();
  /** The time of the last row. */
  now: number;
  status: "running" | "suspended" | "ended" = "running";
  /** Whether a request has suspended it. */
  isHeld = false;
  /** Results that came meanwhile, or to branches that were aborted. */
  readonly held: Row[] = [];
  /** The runs of the top-level steps, by index. */
  readonly #top: Run[] = [];
  readonly #tree: Tree;
  readonly #stored: Stored;
  /** The number of rows that a fork has copied. */
  readonly #copies: number;
  #generation = 0;
  /** The number of rows so far. */
  taken = 0;
  /** The paths of the steps that completed with the last rows. */
  #completed: ReadonlySet<string> = new Set();
  /** Waits that end together. */
  #joined: Row[] = [];

  constructor(tree: Tree, stored: Stored) {
    this.#tree = tree;
    this.#stored = stored;
    this.#copies = copiesOf(stored);
    this.now = stored.execution.startAt;
    this.#begin(0);
    this.#settle(this.#copies === 0 ? happenings(stored.beginning) : []);
  }

  /** The top-level step that was reached. */
  get current(): Run {
    return this.#top.at(-1)!;
  }
  /** Whether the last row is one that a fork has copied, and more follow. */
  get isCopying(): boolean {
    return this.taken < this.#copies;
  }
  /** Whether waits end together, of which the last row was not the last. */
  get isJoining(): boolean {
    return this.#joined.length > 0;
  }

  leaves(): Leaf[] {
    return [...leavesOf(this.current)];
  }

  take(row: Row): void {
    const isCopy = this.taken++ < this.#copies;
    // The results in a fork are never older than the fork. The clock may jump back, also before a command.
    const { fork, startAt } = this.#stored.execution;
    this.now = fork && row.kind !== "signal" ? Math.max(row.at, startAt) : row.at;
    const events = this.taken === this.#copies ? happenings(this.#stored.beginning) : happenings(row);
    if (row.kind === "signal") this.#obey(row, events);
    else if (row.kind === "wake" && !isCopy && JSON.parse(row.body!).isJoined) return void this.#joined.push(row);
    else if (this.isHeld && row.kind !== "wake") return void this.held.push(row);
    else {
      if (row.kind === "wake") this.status = "running";
      this.#deliverAll([...this.#joined.splice(0), row], events, isCopy);
    }
    if (this.status === "running") this.#settle(events);
  }

  /**
   * Takes results one after the other. Those of branches that an earlier one has ended are not needed any more. A retry has
   * them all at once (`isRetry`).
   */
  #deliverAll(rows: readonly Row[], events: readonly EventBody[], isCopy: boolean, isRetry = false): void {
    for (const [index, row] of rows.entries()) {
      if (index > 0 && !isRetry) this.#settle(events);
      const run = this.runs.get(parse(row.key).path);
      if (!run || isOpen(run)) {
        if (run && isCut(run)) this.#keep(row);
        else this.#deliver(row, isCopy);
      } else if (run.type === "iteration" && row.kind === "value") run.end = "success";
      else if (row.kind === "loop") run.count = countOf(row);
      // Aborted, or failed: both are true.
      else if (row.kind === "error")
        for (let one: Run | undefined = run; one; one = one.parent) one.isUnsure ||= !isDone(one);
    }
    if (rows.length < 2) return;
    this.#settle(events);
    // Items that would have begun with one result, and that another one has aborted, may be shown or not.
    for (const { kind, key } of rows) {
      const run = kind === "loop" ? this.runs.get(parse(key).path) : undefined;
      if (run?.end === "aborted") for (const item of run.inner) item.isUnsure = true;
    }
  }

  #settle(events: readonly EventBody[]): void {
    const ends = events.filter(({ type }) => type === "step-complete").map(({ from }) => from!);
    this.#completed = new Set(ends);
    for (;;) {
      settle(this.current, this);
      if (!isDone(this.current) || this.#top.length === this.#tree.length) break;
      this.#begin(this.#top.length);
    }
    if (hasFailed(this.current) || isDone(this.current)) this.status = "ended";
  }

  firstOf(runs: readonly Run[]): Run {
    const found = runs.filter(({ path }) => this.#completed.has(path));
    assert(found.length <= 1, `${found.map(({ path }) => path).join(" and ")} have won a race`);
    return found[0] ?? runs[0]!;
  }

  begun(run: Run): void {
    this.runs.delete(run.path);
    this.runs.set(run.path, run);
    if (run.type !== "andForEach" && !run.type.startsWith("andDo")) return;
    for (const path of this.runs.keys()) if (path.startsWith(`${run.path}/`)) this.runs.delete(path);
  }

  #begin(index: number): void {
    this.#top.push(beginStep(this.#tree[index]!, "", undefined, index, this));
  }

  #obey({ body }: Row, events: readonly EventBody[]): void {
    const { to, isRetry, stepId } = JSON.parse(body!);
    if (to !== "running") {
      this.isHeld = to === "suspended";
      this.status = to === "suspended" ? "suspended" : "ended";
      return;
    }
    const wasHeld = this.isHeld;
    this.isHeld = false;
    this.status = "running";
    const target = wasHeld ? undefined : this.#findWaiting(stepId);
    const index = this.#tree.findIndex(({ id }) => id === stepId);
    if (isRetry) this.#retry();
    else if (target) end(target);
    else if (index >= 0) return this.#goBack(index);
    this.#deliverAll(this.held.splice(0), events, false, isRetry);
  }

  /** The branch that a resume is for: the named one, else the first that asks a person. */
  #findWaiting(stepId: string | undefined): Leaf | undefined {
    const waiting = this.leaves().filter((leaf) => !isInFlight(leaf));
    return waiting.find((leaf) => (stepId === undefined ? "entry" in leaf : leaf.run.path === stepId));
  }

  /** Everything from an earlier step on runs again, under new keys. */
  #goBack(index: number): void {
    for (const row of this.held.splice(0)) {
      if (row.kind === "loop") this.#deliver(row, false); // its items are counted
      const run = this.runs.get(row.key.replace(/\?.*$/, ""));
      if (run?.type === "iteration" && row.kind === "value") run.end = "success";
    }
    this.#generation++;
    drop(this.current);
    this.#top.length = index;
    this.#begin(index);
  }

  /** What failed, and what was aborted because of it, runs again with all its attempts. */
  #retry(): void {
    for (const { entries } of openRuns(this.current))
      for (const entry of entries) {
        if (entry.state !== "failed" && entry.state !== "in flight") continue;
        Object.assign(entry, { state: "in flight", attempt: 1, failedAt: undefined });
      }
  }

  #deliver(row: Row, isCopy: boolean): void {
    const { isWait, path, suffix, generation } = parse(row.key);
    assert.equal(generation, this.#generation, `the generation of ${row.key}`);
    const isMeant = (leaf: Leaf): boolean =>
      leaf.run.path === path && (isWait ? !isInFlight(leaf) : isInFlight(leaf) && leaf.entry.suffix === suffix);
    const leaf = this.leaves().find(isMeant);
    if (leaf && isWait) return end(leaf);
    if (leaf) return this.#takeResult(leaf as Leaf & { entry: Entry }, row, isCopy);
    this.#keep(row);
  }

  /** A step was aborted by a failure that came first. A retry continues with its result, not with another failure. */
  #keep(row: Row): void {
    const { path, suffix } = parse(row.key);
    const aborted = this.#findAborted(path, suffix);
    assert(aborted, `nobody waits for ${row.key}`);
    if (row.kind !== "error") this.held.push(row);
    else if (JSON.parse(row.body!).isFinal && this.runs.get(path)?.type !== "andTap") aborted.state = "failed";
  }

  #findAborted(path: string, suffix: string): Entry | undefined {
    const runs = [...openRuns(this.current)].filter((run) => run.path === path);
    return runs.flatMap(({ entries }) => entries).find((one) => one.suffix === suffix && one.state === "in flight");
  }

  #takeResult({ run, entry }: Leaf & { entry: Entry }, { key, kind, at, body }: Row, isCopy: boolean): void {
    const { node, path } = run;
    entry.failedAt = undefined;
    if (kind === "error") {
      const { isFinal } = JSON.parse(body!);
      const most = node.type === "andThen" && /flaky|twice/.test(node.how) ? 2 : 1;
      if (!isCopy) assert.equal(isFinal, entry.attempt >= most, `whether the failure of ${key} is final`);
      if (isFinal) entry.state = "failed";
      else Object.assign(entry, { attempt: entry.attempt + 1, failedAt: this.now });
      return;
    }
    entry.attempt = 1;
    if (kind === "suspended") {
      const asked = JSON.parse(body!);
      const isTimed = node.type === "andThen" && node.how === "asks in time";
      const due = isTimed ? { at: at + deadlineMs, isElapsed: true } : undefined;
      assert.deepEqual(asked, plain({ reason: `ask ${path}`, data: JSON.stringify({ ask: path }), due }), key);
      Object.assign(entry, { state: "asks", asked, askedAt: at });
      return;
    }
    entry.state = "done";
    if (node.type === "andForEach" && run.type !== "item") {
      const { count, ...rules } = JSON.parse(firstLine(body!));
      const concurrency = Math.min(node.concurrency, 100);
      const isData = node.items === "data" || undefined;
      assert.deepEqual(rules, plain({ concurrency, onError: node.onError, isData }), key);
      if (node.items !== "data") assert.equal(count, node.items, `the number of items of ${key}`);
      run.count = count;
    }
    if (node.type === "andSleep")
      run.wait = { at: this.now, dueAt: this.now + Math.max(0, node.ms), key: undefined, isOver: false };
    // The date is that of the moment at which its code ran.
    if (node.type === "andSleepUntil")
      run.wait = { at: this.now, dueAt: Date.parse(JSON.parse(body!).date), key: undefined, isOver: false };
    if (node.type === "andWaitFor") {
      const dueAt = node.timeout === undefined ? undefined : this.now + Math.max(0, node.timeout);
      run.wait = { at: this.now, dueAt, key: keyOf(node, path), isOver: false };
    }
  }
}

/** A wait is over: by itself, or by a resume. A step that asked runs again. */
function end(leaf: Leaf): void {
  if ("wait" in leaf) leaf.wait.isOver = true;
  else Object.assign(leaf.entry, { state: "in flight", attempt: 1, failedAt: undefined, asked: undefined });
}

function parse(key: string): { isWait: boolean; path: string; suffix: string; generation: number } {
  const form = /^(~?)([^?<>@#]*)(\?\d*|[<>])?(?:@(\d+))?#\d+$/;
  const [, tilde, path, suffix = "", generation = "0"] = form.exec(key)!;
  return { isWait: tilde !== "", path: path!, suffix, generation: Number(generation) };
}

const firstLine = (body: string): string => body.slice(0, body.indexOf("\n"));
/** The number of items of a loop that has begun. */
const countOf = ({ body }: Row): number => JSON.parse(firstLine(body!)).count;

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value));

/** Whether a step around this one has failed: then it was aborted. */
function isCut({ parent }: Run): boolean {
  for (let one = parent; one; one = one.parent) if (hasFailed(one)) return true;
  return false;
}
