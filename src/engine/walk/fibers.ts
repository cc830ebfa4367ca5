import { toErrorMessage } from "../../core/error.ts";
import type { Branch, ForkMode, Outcome } from "../definition.ts";
import type { StoredError, ParkedBranch, Position } from "../execution.ts";
import type { Value } from "./value.ts";
import type { AbortPlan, AttemptPlan, EntryResult, ResumeInput } from "./decision.ts";

/** Thrown into a branch when one of its steps has failed for good. */
export class StepFailure extends Error {
  readonly stored: StoredError;

  constructor(stored: StoredError) {
    super(stored.message);
    this.stored = stored;
  }
}

/**
 * One branch in progress. It waits for one thing: an entry (`plan`), a resume (`parked`) or a fork (`child`). Once that has
 * come, the field stays set until the branch continues; in a paused walk that is after the resume.
 */
interface Fiber {
  readonly branch: Branch;
  /** The fork that this is a branch of; undefined for the workflow itself. */
  readonly fork: Fork | undefined;
  /** The place among the branches of the fork. */
  readonly index: number;
  /** The branch has ended, or was killed. */
  over: boolean;
  plan?: AttemptPlan | undefined;
  position?: Position | undefined;
  parked?: ParkedBranch<Value> | undefined;
  child?: Fork | undefined;
}
interface Fork {
  readonly mode: ForkMode;
  readonly parent: Fiber;
  branches: Fiber[];
  readonly outcomes: Outcome[];
  /** The number of branches that have not ended. */
  open: number;
  decided: boolean;
}
/** A fiber that can continue, and the value or the error that it continues with. */
type Ready = { fiber: Fiber; send?: unknown; fail?: unknown };

/**
 * The scheduler of a walk: a tree of branches, and what each of them waits for.
 *
 * It owns the fibers. It never runs user code, reads a clock or decides about a status.
 * F1. Everything is synchronous and in one order, so a replay repeats it.
 * F2. After `advance`, every fiber that is not over waits for exactly one thing, and `waiting` has every entry once.
 * F3. A killed fiber waits for nothing: its entry is not in `waiting`, and its attempt is among the aborts.
 */
export class Fibers {
  /** The fibers that wait for an entry, by its key. */
  readonly waiting: Map<string, Fiber> = new Map();
  /** The end of the workflow itself. */
  ended: { value: Value } | { error: StoredError } | undefined;
  #root: Fiber | undefined;
  #ready: Ready[] = [];
  #starts: AttemptPlan[] = [];
  #aborts: AbortPlan[] = [];

  /** Starts from a new root. The tree that was there before is killed. */
  setRoot(branch: Branch): void {
    this.kill("The execution went back to an earlier step");
    this.ended = undefined;
    this.#root = { branch, fork: undefined, index: 0, over: false };
    this.#ready = [{ fiber: this.#root }];
  }

  kill(reason: string): void {
    if (this.#root) this.#kill(this.#root, reason);
  }

  /** Hands the result of an entry to the branch that waits for it. */
  deliver(key: string, result: EntryResult): void {
    const fiber = this.waiting.get(key)!;
    this.waiting.delete(key);
    this.#ready.push({ fiber, send: result });
  }

  /** The branches that wait for a resume, in the order of the definition. */
  parked(): ParkedBranch<Value>[] {
    return [...this.#open()].flatMap(({ parked }) => parked ?? []);
  }

  /** Hands a parked branch the data of a resume. */
  resume(parked: ParkedBranch<Value>, resumed: ResumeInput): void {
    const fiber = [...this.#open()].find((one) => one.parked === parked);
    if (fiber) this.#ready.push({ fiber, send: resumed });
  }

  /** The first step in flight, else the first one that waits for a resume. */
  position(): Position | undefined {
    for (const { plan, position } of this.#open()) if (plan) return position;
    return this.parked()[0];
  }

  /** Lets every branch continue until each waits for something. */
  advance(): void {
    for (let ready = this.#ready.shift(); ready; ready = this.#ready.shift()) this.#advance(ready);
  }

  /** The attempts to start and to abort since the last call. */
  takePlans(): { starts: AttemptPlan[]; aborts: AbortPlan[] } {
    const plans = { starts: this.#starts, aborts: this.#aborts };
    this.#starts = [];
    this.#aborts = [];
    return plans;
  }

  #advance({ fiber, send, fail }: Ready): void {
    if (fiber.over) return;
    fiber.plan = fiber.position = fiber.parked = fiber.child = undefined;
    let next: ReturnType<Branch["next"]>;
    try {
      next = fail === undefined ? fiber.branch.next(send) : fiber.branch.throw(fail);
    } catch (error) {
      return this.#end(fiber, undefined, error);
    }
    if (next.done) return this.#end(fiber, next.value, undefined);
    const operation = next.value;
    switch (operation.type) {
      case "entry":
        fiber.plan = operation.plan;
        fiber.position = operation.position;
        this.waiting.set(operation.plan.key, fiber);
        this.#starts.push(operation.plan);
        return;
      case "park":
        fiber.parked = operation.branch;
        return;
      case "fork": {
        const { mode, branches } = operation;
        const fork: Fork = { mode, parent: fiber, branches: [], outcomes: [], open: branches.length, decided: false };
        fork.branches = branches.map((branch, index) => ({ branch, fork, index, over: false }));
        fiber.child = fork;
        if (branches.length === 0) this.#ready.push({ fiber, send: [] });
        else for (const one of fork.branches) this.#ready.push({ fiber: one });
      }
    }
  }

  #end(fiber: Fiber, outcome: Outcome | undefined, error: unknown): void {
    fiber.over = true;
    const { fork } = fiber;
    if (!fork) {
      this.ended = error === undefined ? { value: outcome?.value } : { error: toStoredError(error) };
      return;
    }
    if (fork.decided) return;
    fork.open--;
    if (outcome) fork.outcomes[fiber.index] = outcome;
    const failed = error !== undefined;
    // All: the first failure decides, else the last value. Race: the first value decides, else the last failure.
    if (failed === (fork.mode === "race") && fork.open > 0) return;
    fork.decided = true;
    for (const one of fork.branches) this.#kill(one, failed ? "Another branch failed" : "Another branch won");
    if (failed) this.#ready.push({ fiber: fork.parent, fail: error });
    else this.#ready.push({ fiber: fork.parent, send: fork.mode === "all" ? fork.outcomes : [outcome] });
  }

  #kill(fiber: Fiber, reason: string): void {
    if (fiber.over) return;
    fiber.over = true;
    const { key } = fiber.plan ?? {};
    // An entry that ended while the walk was paused is not waited for any more.
    if (key !== undefined && this.waiting.delete(key)) this.#aborts.push({ key, reason });
    for (const one of fiber.child?.branches ?? []) this.#kill(one, reason);
  }

  *#open(fiber: Fiber | undefined = this.#root): Generator<Fiber> {
    if (!fiber || fiber.over) return;
    yield fiber;
    for (const one of fiber.child?.branches ?? []) yield* this.#open(one);
  }
}

function toStoredError(error: unknown): StoredError {
  if (error instanceof StepFailure) return error.stored;
  return { message: toErrorMessage(error) };
}
