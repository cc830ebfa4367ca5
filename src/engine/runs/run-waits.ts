import type { Clock } from "../../core/clock.ts";
import type { Walk } from "../attempts/walk.ts";
import type { ParkedBranch } from "../execution.ts";
import { countsBefore, type ComingEvent } from "../rules/wait-order.ts";
import type { AttemptPlan } from "../walk/decision.ts";
import type { Value } from "../walk/value.ts";
import type { FoundTakes } from "./find-takes.ts";
import { eventOf, type JournalRow, type StoredWake } from "./journal-row.ts";
import type { NextTimes, RunPort } from "./run-port.ts";

interface WaitParts<Request> {
  readonly walk: Pick<Walk, "isWaitingFor" | "parkedBranches">;
  readonly port: Pick<RunPort, "clock" | "findEvents">;
  readonly run: WakingRun<Request>;
}
/** The run whose waits end. */
interface WakingRun<Request> {
  /** True if a time or an event may end a wait now. */
  readonly mayWake: boolean;
  wake(wakes: readonly StoredWake[], request: Request | undefined): void;
  time(): void;
}

/** The waits of one run that end by a time or an event, in the order of their times. */
export class RunWaits<Request> {
  readonly agenda: Agenda;
  readonly #parts: WaitParts<Request>;
  /** There may be events that no search has found. */
  #hasNews = false;
  #isSearching = false;
  /** The ids of taken events: each has ended a wait. */
  #taken: Set<string> | undefined;

  constructor(parts: WaitParts<Request>) {
    this.#parts = parts;
    this.agenda = new Agenda(parts.port.clock);
  }

  get isSearching(): boolean {
    return this.#isSearching;
  }
  get mayEnd(): boolean {
    return this.#hasNews || this.agenda.hasWaits;
  }
  news(): void {
    this.#hasNews = true;
  }
  /** A wait ended. */
  ended(row: JournalRow | undefined): void {
    const event = row?.kind === "wake" ? eventOf(row) : undefined;
    if (event !== undefined) (this.#taken ??= new Set()).add(event);
  }
  /** True if an event ended a wait of this execution. */
  hasTaken(event: string): boolean {
    return this.#taken?.has(event) ?? false;
  }

  /** Ends the waits whose time has come; if a branch waits for an event, after a search for events. Returns whether any has come. */
  end(request: Request | undefined): boolean {
    const { walk, port } = this.#parts;
    const isDue = this.agenda.dueWaits().some(({ key }) => walk.isWaitingFor(key));
    if (this.#isSearching || !(isDue || this.#hasNews)) return isDue;
    this.#hasNews = false;
    if (!walk.parkedBranches().some(({ event }) => event)) return this.#endDue(request);
    this.#isSearching = true;
    port.findEvents((found) => this.#takeEvents(found, request));
    return true;
  }

  /** Ends waits by events, and those whose time came before. */
  #takeEvents({ takes, isCut }: FoundTakes, request: Request | undefined): void {
    const { run, walk, port } = this.#parts;
    this.#isSearching = false;
    for (const take of takes) {
      const { key, event, receivedAt } = take;
      if (run.mayWake && walk.isWaitingFor(key) && this.#endDue(request, { key, at: receivedAt })) request = undefined;
      if (!run.mayWake || !walk.isWaitingFor(key) || this.hasTaken(event)) continue;
      run.wake([{ ...take, at: port.clock.now() }], request);
      request = undefined;
    }
    if (isCut) this.#hasNews = true;
    else if (run.mayWake && this.#endDue(request)) return;
    run.time();
  }

  /** Ends the waits whose time has come; with an event, those that count before it. */
  #endDue(request: Request | undefined, event?: ComingEvent): boolean {
    const { walk, port, run } = this.#parts;
    if (!this.agenda.hasWaits) return false;
    const ended = this.agenda.takeWaits(event).filter(({ key }) => walk.isWaitingFor(key));
    if (ended.length === 0) return false;
    const at = port.clock.now();
    const last = ended.length - 1;
    const wakes = ended.map(({ key }, index) => ({ key, at, isJoined: index < last || undefined }));
    run.wake(wakes, request);
    return true;
  }
}

/**
 * The times of one run: the ends of retry delays and of waits.
 *
 * A duration is measured by the monotonic clock. After a replay, the backend chooses the clock for the time before. A date
 * follows the wall clock.
 *
 * An attempt may start or not by one reading of the monotonic clock (`now`), which the caller passes to all its questions: an
 * attempt whose time comes between two readings would have neither a start nor a next time.
 */
export class Agenda {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  /** The attempts with a retry delay, and its end by the monotonic clock. */
  readonly #delays = new Map<AttemptPlan, number>();
  /** The waits, and the end of a duration by the monotonic clock; undefined for a date. */
  readonly #waits = new Map<ParkedBranch<Value>, number | undefined>();

  constructor(clock: Pick<Clock, "now" | "monotonic">) {
    this.#clock = clock;
  }

  /** Adds the retry delay of an attempt; `now` is the time by which it is measured. */
  addDelay(plan: AttemptPlan, dueAt: number, now: number): void {
    this.#delays.set(plan, this.#toEnd(dueAt, now));
  }

  /** Adds the waits of a decision; `now` is the time by which durations are measured, undefined if they follow the wall clock. */
  addWaits(parks: readonly ParkedBranch<Value>[], now: number | undefined): void {
    for (const branch of parks) {
      const { due } = branch;
      if (due) this.#waits.set(branch, due.isElapsed && now !== undefined ? this.#toEnd(due.at, now) : undefined);
    }
  }

  #toEnd(dueAt: number, now: number): number {
    return this.#clock.monotonic() + dueAt - now;
  }

  get hasWaits(): boolean {
    return this.#waits.size > 0;
  }
  get hasTimes(): boolean {
    return this.hasWaits || this.#delays.size > 0;
  }

  /** Returns whether an attempt may start. A delay that is over is forgotten. */
  mayStart(plan: AttemptPlan, now: number): boolean {
    if ((this.#delays.get(plan) ?? now) > now) return false;
    this.#delays.delete(plan);
    return true;
  }

  /** Takes out the waits whose time has come, in the order of their times; with an event, those that count before it. */
  takeWaits(event?: ComingEvent): ParkedBranch<Value>[] {
    const due = this.dueWaits().filter((branch) => countsBefore(branch, event));
    for (const branch of due) this.#waits.delete(branch);
    return due.toSorted((one, other) => one.due!.at - other.due!.at);
  }

  /** The waits whose time has come. */
  dueWaits(): ParkedBranch<Value>[] {
    return [...this.#waits.keys()].filter((branch) => this.#msUntil(branch) <= 0);
  }

  /** Forgets what no branch waits for any more. Returns the next times, if there are any. */
  times(now: number, walk: Pick<Walk, "isWaitingFor">): NextTimes | undefined {
    let elapsed = Infinity;
    let date = Infinity;
    for (const [plan, end] of this.#delays) {
      if (!walk.isWaitingFor(plan.key)) this.#delays.delete(plan);
      else if (end > now) elapsed = Math.min(elapsed, end);
    }
    for (const [branch, end] of this.#waits) {
      if (!walk.isWaitingFor(branch.key)) this.#waits.delete(branch);
      else if (end === undefined) date = Math.min(date, branch.due!.at);
      else elapsed = Math.min(elapsed, end);
    }
    if (elapsed === Infinity && date === Infinity) return undefined;
    return { ...(elapsed < Infinity && { elapsed }), ...(date < Infinity && { date }) };
  }

  #msUntil(branch: ParkedBranch<Value>): number {
    const end = this.#waits.get(branch);
    return end === undefined ? branch.due!.at - this.#clock.now() : end - this.#clock.monotonic();
  }
}
