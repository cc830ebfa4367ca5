import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import type { Walk } from "../../../engine/attempts/walk.ts";
import type { AttemptPlan, AttemptResult } from "../../../engine/walk/decision.ts";

/** The result of an attempt that had no slot when its execution was suspended. */
interface NotStarted {
  readonly isNotStarted: true;
}
export interface AttemptInput {
  readonly plan: AttemptPlan;
  readonly result: AttemptResult | NotStarted;
}

interface AttemptsParts {
  readonly context: ObjectContext;
  readonly walk: Walk;
  /** Resolves to whether the code may run, before it runs for the first time on this replica. */
  readonly mayRun: () => Promise<boolean> | boolean;
}

/** The attempts of a drive: planned → in Restate's journal → running here. */
export class DriveAttempts {
  readonly #parts: AttemptsParts;
  /** The attempts to start, in order. */
  readonly #planned = new Set<AttemptPlan>();
  /** The attempts that Restate knows of, by journal key. */
  readonly #attempts = new Map<string, RestatePromise<AttemptInput>>();
  /** The attempts whose code runs here, until their result is taken. */
  readonly #running = new Set<string>();
  /** Resolve when the drive has a slot, and when it is suspended before. */
  #admitted = Promise.withResolvers<true>();
  #isAdmitted = false;
  #suspended = Promise.withResolvers<false>();
  #isSuspended = false;
  #isReleased = false;

  constructor(parts: AttemptsParts) {
    this.#parts = parts;
  }

  /** Plans attempts that may start at once. */
  plan(starts: readonly AttemptPlan[]): void {
    for (const plan of starts) this.#planned.add(plan);
  }
  admit(): void {
    this.#isAdmitted = true;
    this.#admitted.resolve(true);
  }
  /** Gives the slot up until the next `admit`. Returns false if it has none, or still needs it. */
  rest(): boolean {
    if (!this.#isAdmitted || this.isBusy || this.#parts.walk.inFlight > 0) return false;
    this.#isAdmitted = false;
    this.#admitted = Promise.withResolvers();
    return true;
  }
  suspend(): void {
    this.#isSuspended = true;
    this.#suspended.resolve(false);
  }
  resume(): void {
    this.#isSuspended = false;
    this.#suspended = Promise.withResolvers();
  }
  release(): void {
    this.#isReleased = true;
  }

  /** True while the code of an attempt runs here. */
  get isBusy(): boolean {
    return this.#running.size > 0;
  }
  /** True while Restate's journal has an attempt without a result. */
  get hasStarted(): boolean {
    return this.#attempts.size > 0;
  }
  /** The attempts that a branch waits for. */
  awaited(): RestatePromise<AttemptInput>[] {
    return [...this.#attempts].filter(([key]) => this.#parts.walk.isWaitingFor(key)).map(([, promise]) => promise);
  }

  launch(): void {
    if (this.#isSuspended) return;
    for (const plan of this.#planned) {
      this.#planned.delete(plan);
      this.#start(plan);
    }
  }

  /** The end of an attempt. Returns the result, if there is one. */
  take({ plan, result }: AttemptInput): { plan: AttemptPlan; result: AttemptResult } | undefined {
    this.#attempts.delete(plan.key);
    this.#running.delete(plan.key);
    if (!("isNotStarted" in result)) return { plan, result };
    this.#planned.add(plan);
    return undefined;
  }

  #start(plan: AttemptPlan): void {
    if (!this.#parts.walk.isWaitingFor(plan.key)) return;
    const attempt = this.#parts.context.run(plan.key, () => this.#run(plan));
    // A run without a failure: attempts report errors as results.
    this.#attempts.set(
      plan.key,
      attempt.map((result): AttemptInput => ({ plan, result: result! })),
    );
  }

  async #run(plan: AttemptPlan): Promise<AttemptResult | NotStarted> {
    const isAdmitted = await Promise.race([this.#admitted.promise, this.#suspended.promise]);
    if (!isAdmitted) return { isNotStarted: true };
    const { walk, mayRun } = this.#parts;
    const isAllowed = await mayRun();
    if (this.#isSuspended) return { isNotStarted: true };
    if (!isAllowed || this.#isReleased || !walk.isWaitingFor(plan.key)) return new Promise<never>(() => {});
    this.#running.add(plan.key);
    return new Promise((resolve) => walk.start(plan, (result) => resolve(toAccepted(result))));
  }
}

/** Restate accepts messages of 32 MiB. It would repeat the step of a larger one for ever. */
const mostBytes = 30_000_000;
/** JSON text within JSON has twice its size at most. */
const surelyAccepted = mostBytes / 2 - 10_000;

/** The result; a final error in its place when Restate would not accept it. */
function toAccepted(result: AttemptResult): AttemptResult {
  const text = "value" in result ? result.value : "suspended" in result ? result.suspended.data : undefined;
  if (text === undefined || Buffer.byteLength(text) <= surelyAccepted) return result;
  if (Buffer.byteLength(JSON.stringify(result)) <= mostBytes) return result;
  const error = { message: "The value takes more than 30 MB, which Restate accepts", shown: true };
  return { at: result.at, error, isFinal: true, hasRecords: result.hasRecords };
}
