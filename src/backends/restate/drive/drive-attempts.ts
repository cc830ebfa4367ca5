import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import type { Walk } from "../../../engine/attempts/walk.ts";
import type { Admissible } from "../../../engine/runs/groups.ts";
import { notStarted } from "../../../engine/runs/run-port.ts";
import { Seat } from "../../../engine/runs/seat.ts";
import type { AttemptPlan, AttemptResult } from "../../../engine/walk/decision.ts";
import type { Admission, Replica } from "../replica.ts";
import type { LocalDrive } from "./drives.ts";
import type { Clearance } from "./interruptions.ts";

/** The result in Restate's journal of an attempt that had no slot when its execution was suspended. */
type NotStarted = { readonly isNotStarted: true };
export interface AttemptInput {
  readonly plan: AttemptPlan;
  readonly result: AttemptResult | typeof notStarted;
}

interface AttemptsParts {
  readonly context: ObjectContext;
  readonly walk: Walk;
  readonly host: Replica;
  readonly drive: LocalDrive & Admissible;
  /** An earlier attempt of the drive was interrupted. */
  readonly isRepeated: boolean;
}

/**
 * The attempts of a drive: planned → in Restate's journal → running here. Their code runs while the drive has a slot; after a
 * crash, once it is the drive's turn.
 */
export class DriveAttempts {
  readonly #parts: AttemptsParts;
  readonly #planned = new Set<AttemptPlan>();
  /** The attempts that Restate knows of, until their result is taken or no branch waits for it. */
  readonly #attempts = new Map<AttemptPlan, RestatePromise<AttemptInput>>();
  readonly #running = new Set<AttemptPlan>();
  /** Resolve when the drive has a slot, and when it is suspended before. */
  #admitted = Promise.withResolvers<true>();
  #suspended = Promise.withResolvers<false>();
  #isSuspended = false;
  readonly #seat: Seat;
  #admission: Admission | undefined;
  /** Of a repeated drive: asked for when its code runs for the first time, and ended with the next row. */
  #clearance: Promise<Clearance> | undefined;
  #isReleased = false;

  constructor(parts: AttemptsParts) {
    this.#parts = parts;
    const { host, drive } = parts;
    this.#seat = new Seat(drive, {
      slots: host.slots,
      markLent: (isLent) => host.interruptions.setAbsent(drive, isLent),
    });
  }

  enter(): void {
    this.#admission = this.#parts.host.enter(this.#parts.drive);
  }

  plan(plan: AttemptPlan): void {
    this.#planned.add(plan);
  }
  admit(): void {
    this.#seat.admit();
    this.#admitted.resolve(true);
  }
  /** Gives the slot up until an attempt is launched, unless it is still needed. Called while the drive only waits for a time. */
  rest(): void {
    if (this.#seat.state !== "running" || this.hasStarted || this.#running.size > 0 || this.#parts.walk.inFlight > 0)
      return;
    this.#admitted = Promise.withResolvers();
    this.#seat.rest();
  }
  lend(): void {
    void this.#clearance?.then(({ pass }) => pass());
    this.#seat.lend();
  }
  regain(): Promise<void> {
    return this.#seat.regain();
  }

  /** While the execution is suspended, attempts that wait for a slot are not started. */
  setSuspended(isSuspended: boolean): void {
    if (isSuspended === this.#isSuspended) return;
    this.#isSuspended = isSuspended;
    if (isSuspended) this.#suspended.resolve(false);
    else this.#suspended = Promise.withResolvers();
  }
  /** The drive has made a row: whether its code crashes the process is known. */
  onRow(): void {
    void this.#clearance?.then(({ end }) => end());
  }
  release(): void {
    this.#isReleased = true;
    this.onRow();
    this.#admission?.leave();
  }

  /** True while the code of an attempt runs here, and does not wait for other executions. */
  get isBusy(): boolean {
    return this.#running.size > 0 && this.#seat.state !== "lent";
  }
  /** True if an interruption would cut an attempt short: its code runs, or waits for a slot. */
  get hasBegun(): boolean {
    // The attempt before a repeated one is not counted yet: none of this one's code has run.
    return this.hasStarted && (!this.#parts.isRepeated || this.#clearance !== undefined);
  }
  /** True while Restate's journal has an attempt whose result is awaited. */
  get hasStarted(): boolean {
    return this.#attempts.size > 0;
  }
  awaited(): Iterable<RestatePromise<AttemptInput>> {
    return this.#attempts.values();
  }

  /** Takes out the attempts without a waiting branch, and the planned ones that may not start any more. */
  takeLost(mayStart: boolean): AttemptPlan[] {
    const { walk } = this.#parts;
    const lost = [...this.#planned].filter(({ key }) => !mayStart || !walk.isWaitingFor(key));
    for (const plan of this.#attempts.keys()) if (!walk.isWaitingFor(plan.key)) lost.push(plan);
    for (const plan of lost) {
      this.#planned.delete(plan);
      this.#attempts.delete(plan);
    }
    return lost;
  }

  launch(): void {
    if (this.#planned.size > 0 && this.#seat.state === "resting") {
      this.#seat.wake();
      this.#admission?.reenter();
    }
    for (const plan of this.#planned) {
      const attempt = this.#parts.context.run(plan.key, () => this.#run(plan));
      this.#attempts.set(
        plan,
        attempt.map((found): AttemptInput => {
          const result = found!; // a run without a failure: attempts report errors as results
          return { plan, result: "isNotStarted" in result ? notStarted : result };
        }),
      );
    }
    this.#planned.clear();
  }

  ended({ plan }: AttemptInput): void {
    this.#attempts.delete(plan);
    this.#running.delete(plan);
  }

  async #run(plan: AttemptPlan): Promise<AttemptResult | NotStarted> {
    const isAdmitted = await Promise.race([this.#admitted.promise, this.#suspended.promise]);
    if (!isAdmitted) return { isNotStarted: true };
    const { walk } = this.#parts;
    const isAllowed = await this.#mayRun();
    if (this.#isSuspended) return { isNotStarted: true };
    if (!isAllowed || this.#isReleased || !walk.isWaitingFor(plan.key)) return new Promise<never>(() => {});
    this.#running.add(plan);
    return new Promise((resolve) =>
      walk.start(plan, (result) => {
        if (!this.#attempts.has(plan)) this.#running.delete(plan); // nobody takes it
        resolve(toAccepted(result));
      }),
    );
  }

  /** Resolves to true when the code may run here. After a crash it waits for its turn, or may not run again. */
  #mayRun(): Promise<boolean> | boolean {
    const { host, drive, isRepeated } = this.#parts;
    if (host.isClosing) return false; // another replica starts it
    if (!isRepeated) return true;
    this.#clearance ??= host.interruptions.clear(drive);
    return this.#clearance.then(({ mayRun }) => mayRun);
  }
}

/** Restate accepts messages of 32 MiB. It would repeat the step of a larger one for ever. */
const maxBytes = 30_000_000;
/** JSON text within JSON has twice its size at most. */
const surelyAccepted = maxBytes / 2 - 10_000;

/** The result; a final error in its place when Restate would not accept it. */
function toAccepted(result: AttemptResult): AttemptResult {
  const text = "value" in result ? result.value : "suspended" in result ? result.suspended.data : undefined;
  if (text === undefined || Buffer.byteLength(text) <= surelyAccepted) return result;
  if (Buffer.byteLength(JSON.stringify(result)) <= maxBytes) return result;
  const error = { message: "The value takes more than 30 MB, which Restate accepts", shown: true };
  return { at: result.at, error, isFinal: true, hasRecords: result.hasRecords };
}
