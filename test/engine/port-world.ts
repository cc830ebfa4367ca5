import { andAll, andSleep, andThen, defineWorkflow } from "agentserve";
import { equal, notEqual } from "node:assert/strict";
import { createProgram } from "../../src/engine/attempts/live-walk.ts";
import { codelessHost, type Walk } from "../../src/engine/attempts/walk.ts";
import type { Execution, ExecutionState, Transition } from "../../src/engine/execution.ts";
import { afterTransition, isEnd, isLegal } from "../../src/engine/rules/transitions.ts";
import type { FoundTakes } from "../../src/engine/runs/find-takes.ts";
import { textOf, type JournalRow } from "../../src/engine/runs/journal-row.ts";
import { Run } from "../../src/engine/runs/run.ts";
import {
  notStarted,
  type Change,
  type CommitOutcome,
  type RunPort,
  type NextTimes,
} from "../../src/engine/runs/run-port.ts";
import type { AttemptPlan } from "../../src/engine/walk/decision.ts";
import { resolveTransition } from "../../src/engine/execution.ts";
import { toText } from "../../src/engine/walk/value.ts";
import type { Random } from "../faults/kills/plan.ts";
import { createTestLogger } from "../harness/server.ts";
import { programOptions } from "./trees/play/world.ts";

const retried = { id: "b", retry: { attempts: 3, delayMs: 5_000 }, execute: () => "b" };
const definition = defineWorkflow({ id: "port" })
  .andThen({ id: "a", execute: () => "a" })
  .andAll({
    id: "all",
    steps: [
      andThen(retried),
      andSleep({ id: "nap", duration: "20s" }),
      andSleep({ id: "doze", duration: "20s" }),
      andAll({ id: "in", steps: [andThen({ id: "c", execute: () => "c" })] }),
    ],
  })
  .andWaitFor({ id: "paid", event: "paid", timeout: "60s" })
  .andThen({ id: "d", execute: () => "d" });
const { createWalk, steps } = createProgram(programOptions(definition, createTestLogger([])));
const execution: Execution = { id: "e", workflowId: "port", input: "{}", context: {}, startAt: 1_000, steps };

interface Pending {
  readonly change: Change;
  readonly onOutcome: (outcome: CommitOutcome) => void;
  /** The command of the change is made already. */
  readonly isMade: boolean;
}

/** What is durable, and the process around it. */
export class World implements RunPort<"made"> {
  readonly executionBytes = 1e6;
  /** True if commands are made before the run hears of them, and may precede its own transitions. */
  readonly #mayPrecede: boolean;
  readonly #random: Random;
  /** The state of the last transition, and the one that the stored rows lead to. */
  state: ExecutionState = { execution, status: "running", epoch: 0 };
  #stored: ExecutionState = this.state;
  /** The commands that were made before the run heard of them. */
  readonly #made: { readonly epoch: number; readonly next: Transition }[] = [];
  /** The last one has preceded a transition of the run, which has not heard of it. */
  #isOwed = false;
  readonly rows: JournalRow[] = [];
  seq = 0;
  /** The rows whose own transition was preceded. */
  readonly #preceded = new Set<number>();
  #lastRow = 0;
  #time = 1_000;
  #eventAt: number | undefined;
  // Of the process, and gone after a crash.
  walk!: Walk;
  run!: Run<"made">;
  #pending: Pending[] = [];
  #held: AttemptPlan[] = [];
  #open: AttemptPlan[] = [];
  #times: NextTimes | undefined;
  #searches: ((found: FoundTakes) => void)[] = [];
  #hasLeft = false;
  #isInInput = false;
  readonly seen = { preceded: 0, ahead: 0, crashed: 0, notStarted: 0, left: 0, joined: 0 };

  constructor(random: Random, mayPrecede: boolean) {
    this.#random = random;
    this.#mayPrecede = mayPrecede;
    this.#open = [];
    this.#create();
    this.#input(() => this.run.begin(undefined, "made"));
  }

  readonly clock = { now: () => this.#time, monotonic: () => this.#time };
  newRow = (): number => ++this.#lastRow;

  append(change: Change, request: "made" | undefined, onOutcome: Pending["onOutcome"]): void {
    if (this.#pending.length > 0) this.seen.ahead++;
    if (change.hasOwn && !this.#mayPrecede) this.walk.confirmTransition();
    if (this.#isOwed) notEqual(change.row?.kind, "wake", "no wait ends before a command that was first");
    this.#pending.push({ change, onOutcome, isMade: request !== undefined });
  }
  start(plan: AttemptPlan): void {
    equal(this.#stored.status, "running", "attempts start while the execution is running");
    this.#held.push(plan);
  }
  alarm(times: NextTimes | undefined, isIdle: boolean): void {
    if (isIdle) equal(this.#open.length + this.#held.length + this.#pending.length, 0);
    this.#times = times;
  }
  findEvents(onFound: (found: FoundTakes) => void): void {
    this.#searches.push(onFound);
  }
  leave(): void {
    equal(this.#pending.length, 0);
    if (this.state.status === "suspended") equal(this.#open.length + this.#held.length, 0);
    this.#hasLeft = true;
    this.seen.left++;
  }

  /** Hands an input to the run. Nothing comes back inside of it but calls of the port. */
  #input(input: () => void): void {
    equal(this.#isInInput, false, "inputs come one at a time");
    this.#isInInput = true;
    input();
    this.#isInInput = false;
  }

  #create(): void {
    const readRow = (id: number) => textOf(this.rows.find((row) => row.id === id)!);
    const clock = { ...this.clock } as never; // a walk without code has no timers
    this.walk = createWalk(execution, { ...codelessHost, readRow, clock });
    this.run = new Run(this.#stored, this.walk, this);
  }

  /** The actions that are possible now. While an own transition may be preceded, only its outcome comes (P5). */
  actions(): (() => void | Promise<void>)[] {
    const isSettling = this.#mayPrecede && this.#pending.some(({ change }) => change.hasOwn);
    const isOver = this.#hasLeft || isEnd(this.state.status);
    const actions: (() => void | Promise<void>)[] = this.#pending.length > 0 ? [() => this.commit()] : [];
    if (isSettling && !this.#isOwed && this.state.status === "running")
      for (let weight = 0; weight < 4; weight++) actions.push(() => this.#precede());
    if (isSettling) return actions;
    if (this.#hasLeft && this.state.status === "suspended") return [() => this.restart(), () => this.restart()];
    if (isOver && this.#pending.length === 0) return [];
    if (this.#isOwed) actions.push(() => this.#tell());
    actions.push(
      () => this.pass(),
      () => this.#crash(),
    );
    if (this.#held.length > 0) actions.push(() => this.admit());
    if (this.#open.length > 0) actions.push(() => this.finish());
    if (this.#searches.length > 0) actions.push(() => this.search());
    if (this.#eventAt === undefined) actions.push(() => this.send());
    for (const next of this.#isOwed ? [] : this.#commands())
      if (this.#random.chance(0.25)) actions.push(() => this.command(next));
    return actions;
  }

  #commands(): Transition[] {
    const at = this.#time;
    const suspend: Transition = { at, to: "suspended", reason: "from outside", pending: [] };
    const all: Transition[] = [suspend, { at, to: "running" }];
    const base = this.#mayPrecede ? this.state : { status: this.run.decided.status, last: this.state.last };
    // A resume ends a wait for a person only. Those of this workflow end by themselves.
    const isOwn = this.state.last?.to === "suspended" && this.state.last.pending.length > 0;
    return all.filter((next) => isLegal(base, next) && !(next.to === "running" && isOwn));
  }

  command(next: Transition): void {
    if (this.#mayPrecede) this.#make(next);
    this.#input(() => this.run.command(next, "made"));
  }
  #make(next: Transition): void {
    this.state = afterTransition(this.state, next);
    this.#made.push({ epoch: this.state.epoch, next });
  }

  /** Stores the oldest change. */
  commit(): void {
    const { change, onOutcome, isMade } = this.#pending.shift()!;
    const { row, joined = [], events } = change;
    const isPreceded = change.hasOwn && this.#isOwed ? (true as const) : undefined;
    const transitions = isPreceded ? change.transitions.slice(0, -1) : change.transitions;
    const isCommand = row?.kind === "command";
    this.rows.push(...joined, ...(row ? [row] : []));
    if (joined.length > 0) this.seen.joined++;
    let state: ExecutionState | undefined;
    for (const [index, one] of transitions.entries()) {
      const next = resolveTransition(one, (value) =>
        toText(value, (id) => textOf(this.rows.find((r) => r.id === id)!)),
      );
      state = this.#stored = afterTransition(this.#stored, next);
      const wasMade = this.#mayPrecede && isMade && isCommand && index === 0;
      if (!wasMade) this.state = state;
    }
    const closing = change.transitions.filter(({ to }) => to !== "running").length;
    equal(change.seq, this.seq + events.length + closing, "numbers of events have no gaps");
    this.seq = change.seq;
    if (isPreceded) {
      this.seq -= change.transitions.at(-1)!.to === "running" ? 0 : 1;
      this.seen.preceded++;
      if (row) this.#preceded.add(row.id);
    } else if (change.hasOwn && this.#mayPrecede) this.walk.confirmTransition();
    this.#input(() => onOutcome({ state, isPreceded }));
    this.#dropHeld();
  }

  /** A command is made before the own transition that is being written. The run hears of it later. */
  #precede(): void {
    this.#make({ at: this.#time, to: "suspended", reason: "from outside", pending: [] });
    this.#isOwed = true;
    this.commit();
  }

  /** The run hears of the command that has preceded its transition. */
  #tell(): void {
    this.#isOwed = false;
    this.#input(() => this.run.command(this.#made.at(-1)!.next, "made"));
  }

  admit(): void {
    for (const plan of this.#held.splice(0)) {
      if (this.run.mayStart && this.walk.isWaitingFor(plan.key)) this.#open.push(plan);
      else this.#input(() => this.run.end(plan, notStarted));
    }
  }
  #dropHeld(): void {
    if (this.state.status === "running") return;
    for (const plan of this.#held.splice(0)) {
      this.seen.notStarted++;
      this.#input(() => this.run.end(plan, notStarted));
    }
  }

  /** An attempt ends; that of `b` fails at first. */
  finish(): void {
    const [plan] = this.#open.splice(this.#random.between(0, this.#open.length - 1), 1);
    const { path, attempt, suffix } = plan!;
    const at = this.#time;
    const isFailure = path === "b" && attempt === 1;
    const wait = { ms: path === "paid" ? 60_000 : 20_000, inlineMs: 1_000 };
    const value = JSON.stringify(suffix === "?" ? wait : path);
    this.#input(() =>
      this.run.end(plan!, isFailure ? { at, error: { message: "no" }, isFinal: false } : { at, value }),
    );
  }

  /** Time passes, up to the next time. */
  pass(): void {
    const { elapsed = Infinity, date = Infinity } = this.#times ?? {};
    const next = Math.min(elapsed, date);
    this.#time = next === Infinity ? this.#time + this.#random.between(1, 1_000) : Math.max(this.#time, next);
    this.#input(() => this.run.time());
  }

  send(): void {
    this.#eventAt = this.#time;
    this.#input(() => this.run.news());
  }
  search(): void {
    const receivedAt = this.#eventAt;
    const branch = this.walk.parkedBranches().find(({ event }) => event);
    const isFound = branch && receivedAt !== undefined && !this.run.hasTaken("event");
    const takes = isFound ? [{ key: branch.key, event: "event", receivedAt, value: '"money"' }] : [];
    this.#input(() => this.#searches.shift()!({ takes }));
  }

  async #crash(): Promise<void> {
    this.seen.crashed++;
    await this.restart();
  }
  /** Another process continues from the rows. */
  async restart(): Promise<void> {
    this.run.release();
    this.#pending = [];
    this.#held = [];
    this.#open = [];
    this.#searches = [];
    this.#times = undefined;
    this.#hasLeft = false;
    this.#isOwed = false;
    this.#create();
    const { rows } = this;
    const pages = (async function* () {
      yield rows;
    })();
    if (rows.length === 0 && this.seq === 0) return this.#input(() => this.run.begin(undefined, "made"));
    const facts = { wasPreceded: (row: number) => this.#preceded.has(row) };
    equal(await this.run.replay(pages, facts), undefined, "the rows lead to the stored status");
    for (const { epoch, next } of this.#made)
      if (epoch > this.#stored.epoch) this.#input(() => this.run.command(next, "made"));
    this.#input(() => this.run.news());
    this.#hasLeft = false;
    if (this.#pending.length > 0) return;
    if (this.state.status === "suspended" && this.#commands().length > 0)
      this.command({ at: this.#time, to: "running" });
    else if (this.state.status === "suspended") this.pass();
  }
  /** Lets the execution end. */
  async drain(): Promise<void> {
    for (let turn = 0; turn < 500 && !(isEnd(this.state.status) && this.#pending.length === 0); turn++) {
      if (this.#pending.length > 0) this.commit();
      else if (this.#isOwed) this.#tell();
      else if (this.state.status === "suspended" && this.#hasLeft) await this.restart();
      else if (this.state.status === "suspended" && this.#commands().length > 0)
        this.command({ at: this.#time, to: "running" });
      else if (this.#searches.length > 0) this.search();
      else if (this.#held.length > 0) this.admit();
      else if (this.#open.length > 0) this.finish();
      else this.pass();
    }
  }
}
