import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import type { ParkedBranch } from "../../../engine/execution.ts";
import { countsBefore, type ComingEvent } from "../../../engine/wait-order.ts";
import type { AttemptPlan, Decision } from "../../../engine/walk/decision.ts";
import type { Value } from "../../../engine/walk/value.ts";

/** A time has come. */
export interface DueInput {
  readonly dueAt: number;
}
type Wait = ParkedBranch<Value>;

/**
 * The times of one drive: the attempts to start after a retry delay, and the branches that wait for a time.
 *
 * Every time is one of the wall clock, and so is the end of a duration. One `sleep` of Restate serves the earliest of them.
 * All of it follows from Restate's journal, so a repetition of the drive makes the same calls.
 */
export class DriveAgenda {
  readonly #context: ObjectContext;
  readonly #isWaitingFor: (key: string) => boolean;
  readonly #starts = new Set<AttemptPlan>();
  readonly #waits = new Set<Wait>();
  /** The sleeps that Restate's journal has, by the time of their end. */
  readonly #sleeps = new Map<number, RestatePromise<DueInput>>();
  /** The newest time that Restate's journal has. */
  #now = 0;

  constructor(context: ObjectContext, isWaitingFor: (key: string) => boolean) {
    this.#context = context;
    this.#isWaitingFor = isWaitingFor;
  }

  /** Adds the plans of a decision, except attempts that may start at once. */
  add({ starts, parks }: Pick<Decision, "starts" | "parks">): void {
    for (const plan of starts) if (plan.delay > 0) this.#starts.add(plan);
    for (const branch of parks) if (branch.due) this.#waits.add(branch);
  }
  advance(now: number): void {
    this.#now = Math.max(this.#now, now);
  }

  get isEmpty(): boolean {
    this.#forget();
    return this.#starts.size + this.#waits.size === 0;
  }

  /** Resolves at the next time; undefined if there is none. */
  next(): RestatePromise<DueInput> | undefined {
    if (this.isEmpty) return undefined;
    let dueAt = Infinity;
    for (const plan of this.#starts) dueAt = Math.min(dueAt, plan.dueAt);
    for (const { due } of this.#waits) dueAt = Math.min(dueAt, due!.at);
    // A sleep that ends before is good as well: the next one follows it.
    const firstAt = Math.min(...this.#sleeps.keys());
    const known = this.#sleeps.get(Math.min(dueAt, firstAt));
    if (known) return known;
    const sleep = this.#context.sleep(Math.max(0, Math.ceil(dueAt - this.#now))).map((): DueInput => ({ dueAt }));
    this.#sleeps.set(dueAt, sleep);
    return sleep;
  }
  /** A sleep is over. */
  woke({ dueAt }: DueInput): void {
    this.#sleeps.delete(dueAt);
  }

  /** Takes out the attempts that may start. */
  takeStarts(now: number): AttemptPlan[] {
    const due = [...this.#starts].filter((plan) => plan.dueAt <= now);
    for (const plan of due) this.#starts.delete(plan);
    return due;
  }
  /** Takes out the waits whose time has come, in the order of their times; with an event, those that count before it. */
  takeWaits(now: number, event?: ComingEvent): Wait[] {
    const due = [...this.#waits].filter(
      (branch) => branch.due!.at <= now && this.#isWaitingFor(branch.key) && countsBefore(branch, event),
    );
    for (const branch of due) this.#waits.delete(branch);
    return due.toSorted((one, other) => one.due!.at - other.due!.at);
  }

  /** Whether the time of a wait has come. */
  hasDueWaits(now: number): boolean {
    return [...this.#waits].some((branch) => branch.due!.at <= now && this.#isWaitingFor(branch.key));
  }

  /** Forgets what no branch waits for any more. */
  #forget(): void {
    for (const plan of this.#starts) if (!this.#isWaitingFor(plan.key)) this.#starts.delete(plan);
    for (const branch of this.#waits) if (!this.#isWaitingFor(branch.key)) this.#waits.delete(branch);
  }
}
