import { toErrorMessage } from "../../core/error.ts";
import type { Branch, BranchEnd, ForkPlan, StepOutput } from "../definition/definition.ts";
import type { StoredError, ParkedBranch, Position } from "../execution.ts";
import type { Value } from "./value.ts";
import type { AbortPlan, AttemptPlan, EntryResult, ResumeInput } from "./decision.ts";

/**
 * One branch in progress. It waits for one thing: an entry (`plan`), a person, a time or an event (`parked`), a fork
 * (`child`), or, once it has failed, a retry of the execution. Once that has come, the field stays set until the branch
 * continues; in a paused walk that is after the resume.
 */
interface Fiber {
  readonly branch: Branch;
  /** The fork that this is a branch of; undefined for the workflow itself. */
  readonly fork: Fork | undefined;
  /** The place among the branches of the fork. */
  readonly index: number;
  /** The branch ended, or was killed. */
  over: boolean;
  /** Its entry, or its fork, has failed for good. */
  isFailed?: boolean;
  /** True if another branch failed, or a command ended the execution. Only a retry continues the branch. */
  isAborted?: boolean;
  /** The input that came for the branch before it was aborted. */
  held?: Ready | undefined;
  plan?: AttemptPlan | undefined;
  parked?: ParkedBranch<Value> | undefined;
  child?: Fork | undefined;
}
interface Fork {
  readonly plan: ForkPlan;
  readonly parent: Fiber;
  /** The open branches, in their order. */
  readonly open: Map<number, Fiber>;
  readonly ends: BranchEnd[];
  /** The number of branches that began. */
  begun: number;
  /** The number of open branches that have failed. */
  failed: number;
}
/** A fiber that can continue, and the value to continue with. */
type Ready = { fiber: Fiber; send?: unknown };

/**
 * The scheduler of a walk: a tree of branches, and what each of them waits for.
 *
 * It owns the fibers. It never runs user code, reads a clock or decides about a status.
 * F1. Everything is synchronous and in one order, so a replay repeats it.
 * F2. After `advance`, every fiber that is not over waits for exactly one thing; `waiting` has every entry once, and
 *     `parked` every branch that waits for a person, a time or an event.
 * F3. A killed or aborted fiber waits for nothing: it is in neither of them, and its attempt is among the aborts.
 * F4. A failure kills nothing. The failed branch and those that it aborts keep their places, and `retry` continues from them.
 */
export class Fibers {
  /** The fibers that wait for an entry, by its key. */
  readonly waiting: Map<string, Fiber> = new Map();
  /** The fibers that wait for a person, a time or an event, by their wake key. */
  readonly parked: Map<string, Fiber> = new Map();
  /** The end of the workflow itself. */
  ended: { value: Value } | { error: StoredError } | undefined;
  #root: Fiber | undefined;
  /** The inputs that have come for branches, in their order. */
  #ready: Ready[] = [];
  /** The branches that continue because of the input taken last. */
  #following: Ready[] = [];
  #starts: AttemptPlan[] = [];
  #aborts: AbortPlan[] = [];
  #parks: ParkedBranch<Value>[] = [];

  /** Starts from a new root. The tree that was there before is killed. */
  setRoot(branch: Branch): void {
    this.kill("The execution went back to an earlier step");
    this.ended = undefined;
    this.#root = { branch, fork: undefined, index: 0, over: false };
    this.#ready = [{ fiber: this.#root }];
    this.#following = [];
  }

  kill(reason: string): void {
    if (this.#root) this.#kill(this.#root, reason);
  }

  /** Aborts every branch. Only a retry continues them. */
  abort(reason: string): void {
    if (this.#root) this.#abort(this.#root, reason);
  }

  /** Continues after a failure: every entry without a recorded value begins again. Branches that were parked wait again. */
  retry(): void {
    if (!this.#root || this.#root.over) return;
    this.ended = undefined;
    this.#revive(this.#root);
  }

  /** Hands the result of an entry to the branch that waits for it. */
  deliver(key: string, result: EntryResult): void {
    const fiber = this.waiting.get(key)!;
    this.waiting.delete(key);
    this.#ready.push({ fiber, send: result });
  }

  /** The branches that wait for a person, a time or an event, in the order of the definition. */
  parkedBranches(): ParkedBranch<Value>[] {
    if (this.parked.size === 0) return [];
    return [...this.#open()].flatMap(({ parked }) => (parked && this.parked.has(parked.key) ? parked : []));
  }

  /** Hands a parked branch the data of a resume, or what ended its wait. */
  resume(key: string, resumed: ResumeInput): void {
    const fiber = this.parked.get(key)!;
    this.parked.delete(key);
    this.#ready.push({ fiber, send: resumed });
  }

  /** The first step in flight, else the first one that waits for a resume. */
  position(): Position | undefined {
    for (const { plan, isAborted } of this.#open())
      if (plan && !isAborted) return { stepIndex: plan.stepIndex, stepId: plan.path };
    return this.parkedBranches()[0];
  }

  /**
   * Lets every branch continue until each waits for something. Everything from one input comes before the next one: inputs
   * taken together, or while the walk was paused, lead to the same place as single ones.
   */
  advance(): void {
    for (;;) {
      const ready = this.#following.shift() ?? this.#ready.shift();
      if (!ready) return;
      this.#advance(ready);
    }
  }

  /** The attempts to start and to abort, and the waits that began, since the last call. */
  takePlans(): { starts: AttemptPlan[]; aborts: AbortPlan[]; parks: ParkedBranch<Value>[] } {
    const plans = { starts: this.#starts, aborts: this.#aborts, parks: this.#parks };
    this.#starts = [];
    this.#aborts = [];
    this.#parks = [];
    return plans;
  }

  #advance(ready: Ready): void {
    const { fiber } = ready;
    if (fiber.over) return;
    if (fiber.isAborted) return void (fiber.held = ready);
    fiber.plan = fiber.parked = fiber.child = undefined;
    let next: ReturnType<Branch["next"]>;
    try {
      next = fiber.branch.next(ready.send);
    } catch (error) {
      fiber.over = true; // a bug: the code of users fails by a result
      return this.#fail(fiber, { message: toErrorMessage(error) });
    }
    if (next.done) return this.#end(fiber, next.value);
    const operation = next.value;
    switch (operation.type) {
      case "entry":
        fiber.plan = operation.plan;
        this.waiting.set(operation.plan.key, fiber);
        this.#starts.push(operation.plan);
        return;
      case "fail":
        return this.#fail(fiber, operation.error);
      case "park":
        return this.#park(fiber, operation.branch);
      case "fork":
        fiber.child = { plan: operation.fork, parent: fiber, open: new Map(), ends: [], begun: 0, failed: 0 };
        this.#fill(fiber.child);
    }
  }

  #park(fiber: Fiber, branch: ParkedBranch<Value>): void {
    fiber.parked = branch;
    this.parked.set(branch.key, fiber);
    this.#parks.push(branch);
  }

  /** Begins as many branches as may be in progress at the same time. */
  #fill(fork: Fork): void {
    const { count, concurrency, branch } = fork.plan;
    while (fork.begun < count && fork.open.size < concurrency) {
      const index = fork.begun++;
      const fiber: Fiber = { branch: branch(index), fork, index, over: false };
      fork.open.set(index, fiber);
      this.#following.push({ fiber });
    }
    if (fork.open.size === 0) this.#following.push({ fiber: fork.parent, send: fork.ends });
  }

  #end(fiber: Fiber, outcome: StepOutput): void {
    fiber.over = true;
    const { fork } = fiber;
    if (!fork) this.ended = { value: outcome.value };
    else this.#endBranch(fork, fiber.index, outcome);
  }

  #endBranch(fork: Fork, index: number, end: BranchEnd): void {
    fork.open.delete(index);
    if (fork.plan.mode !== "race") {
      fork.ends[index] = end;
      return this.#fill(fork);
    }
    for (const one of fork.open.values()) this.#kill(one, "Another branch won");
    this.#following.push({ fiber: fork.parent, send: [end] });
  }

  /** A branch has failed. In a race its fork fails with the last branch, else at once, unless the fork collects failures. */
  #fail(fiber: Fiber, error: StoredError): void {
    fiber.isFailed = true;
    const { fork } = fiber;
    if (!fork) {
      this.ended = { error };
      return;
    }
    if (fork.plan.mode === "collect") {
      this.#kill(fiber, "The branch has failed");
      return this.#endBranch(fork, fiber.index, { error });
    }
    fork.failed++;
    if (fork.plan.mode === "race" && fork.failed < fork.open.size) return;
    for (const one of fork.open.values()) this.#abort(one, "Another branch failed");
    this.#fail(fork.parent, error);
  }

  #abort(fiber: Fiber, reason: string): void {
    if (fiber.over || fiber.isFailed || fiber.isAborted) return;
    fiber.isAborted = true;
    this.#abortEntry(fiber, reason);
    if (fiber.parked) this.parked.delete(fiber.parked.key);
    for (const one of branchesOf(fiber)) this.#abort(one, reason);
  }

  #abortEntry({ plan }: Fiber, reason: string): void {
    // An entry that ended while the walk was paused is not waited for any more.
    if (plan && this.waiting.delete(plan.key)) this.#aborts.push({ key: plan.key, reason });
  }

  #revive(fiber: Fiber): void {
    const { isFailed, plan, child, held, parked } = fiber;
    fiber.isFailed = fiber.isAborted = false;
    fiber.held = undefined;
    if (held && !isFailure(held.send)) this.#ready.push(held);
    else if (child) {
      child.failed = 0;
      for (const one of child.open.values()) this.#revive(one);
    } else if (parked) this.#park(fiber, parked);
    else if (isFailed || plan) this.#ready.push({ fiber }); // without a result: the entry begins again
  }

  #kill(fiber: Fiber, reason: string): void {
    if (fiber.over) return;
    fiber.over = true;
    this.#abortEntry(fiber, reason);
    if (fiber.parked) this.parked.delete(fiber.parked.key);
    for (const one of branchesOf(fiber)) this.#kill(one, reason);
  }

  *#open(fiber: Fiber | undefined = this.#root): Generator<Fiber> {
    if (!fiber || fiber.over) return;
    yield fiber;
    for (const one of branchesOf(fiber)) yield* this.#open(one);
  }
}

const branchesOf = ({ child }: Fiber): Iterable<Fiber> => child?.open.values() ?? [];

const isFailure = (send: unknown): boolean => typeof send === "object" && send !== null && "error" in send;
