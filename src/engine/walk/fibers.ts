import { toErrorMessage } from "../../core/error.ts";
import type { Branch, EntryAttempt, Outcome, Resumed } from "../definition.ts";
import type { Fault, ParkedBranch, Position } from "../execution.ts";
import type { EntryResult, Start } from "./walk.ts";

/** What a branch ends with when a step of it has failed for good. */
export class StepFailure extends Error {
  readonly fault: Fault;

  constructor(fault: Fault) {
    super(fault.message);
    this.fault = fault;
  }
}

interface Fiber {
  readonly branch: Branch;
  /** The fork that it is a branch of; none for the workflow itself. */
  readonly fork: Fork | undefined;
  readonly index: number;
  over: boolean;
  attempt?: EntryAttempt | undefined;
  position?: Position | undefined;
  parked?: ParkedBranch | undefined;
  child?: Fork | undefined;
}
interface Fork {
  readonly mode: "all" | "race";
  readonly parent: Fiber;
  branches: Fiber[];
  readonly outcomes: Outcome[];
  left: number;
  decided: boolean;
}
type Ready = { fiber: Fiber; send?: unknown; fail?: unknown };

/** Who waits for what. Everything in here is synchronous and in one order, so a replay repeats it. */
export class Fibers {
  /** The entries that somebody waits for. */
  readonly waiting: Map<string, Fiber> = new Map();
  /** How the workflow itself ended. */
  ended: { value: Outcome["value"] } | { error: Fault } | undefined;
  readonly #start: (start: Start) => void;
  #root: Fiber | undefined;
  #ready: Ready[] = [];

  constructor(start: (start: Start) => void) {
    this.#start = start;
  }

  /** Begins anew; what was there before is aborted and forgotten. */
  begin(branch: Branch): void {
    this.kill("The execution went back to an earlier step");
    this.#ready = [];
    this.ended = undefined;
    this.#root = { branch, fork: undefined, index: 0, over: false };
    this.#ready.push({ fiber: this.#root });
  }

  kill(reason: string): void {
    if (this.#root) this.#kill(this.#root, reason);
  }

  settle(key: string, settled: EntryResult): void {
    const fiber = this.waiting.get(key)!;
    this.waiting.delete(key);
    this.#ready.push({ fiber, send: settled });
  }

  /** The branches that wait for a resume, in the order of the definition. */
  parked(): ParkedBranch[] {
    return [...this.#open()].flatMap(({ parked }) => parked ?? []);
  }

  /** Hands a parked branch what came with the resume. */
  resume(parked: ParkedBranch, resumed: Resumed): void {
    const fiber = [...this.#open()].find((one) => one.parked === parked);
    if (fiber) this.#ready.push({ fiber, send: resumed });
  }

  /** The first step in flight, else the first that waits for a resume. */
  position(): Position | undefined {
    for (const { attempt, position } of this.#open()) if (attempt) return position;
    return this.parked()[0];
  }

  /** Lets every branch go on until each waits for something. */
  advance(): void {
    for (let ready = this.#ready.shift(); ready; ready = this.#ready.shift()) this.#advance(ready);
  }

  #advance({ fiber, send, fail }: Ready): void {
    if (fiber.over) return;
    fiber.attempt = fiber.position = fiber.parked = fiber.child = undefined;
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
        fiber.attempt = operation.attempt;
        fiber.position = operation.position;
        this.waiting.set(operation.attempt.key, fiber);
        return this.#start(operation.attempt);
      case "park":
        fiber.parked = operation.parked;
        return;
      case "fork": {
        const { mode, branches } = operation;
        const fork: Fork = { mode, parent: fiber, branches: [], outcomes: [], left: branches.length, decided: false };
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
      this.ended = error === undefined ? { value: outcome?.value } : { error: toFault(error) };
      return;
    }
    if (fork.decided) return;
    fork.left--;
    if (outcome) fork.outcomes[fiber.index] = outcome;
    const failed = error !== undefined;
    // All: a failure decides, or the last value. Race: a value decides, or the last failure.
    if (failed === (fork.mode === "race") && fork.left > 0) return;
    fork.decided = true;
    for (const one of fork.branches) this.#kill(one, failed ? "Another branch failed" : "Another branch won");
    if (failed) this.#ready.push({ fiber: fork.parent, fail: error });
    else this.#ready.push({ fiber: fork.parent, send: fork.mode === "all" ? fork.outcomes : [outcome] });
  }

  #kill(fiber: Fiber, reason: string): void {
    if (fiber.over) return;
    fiber.over = true;
    if (fiber.attempt) this.waiting.delete(fiber.attempt.key);
    fiber.attempt?.abort(reason);
    for (const one of fiber.child?.branches ?? []) this.#kill(one, reason);
  }

  *#open(fiber: Fiber | undefined = this.#root): Generator<Fiber> {
    if (!fiber || fiber.over) return;
    yield fiber;
    for (const one of fiber.child?.branches ?? []) yield* this.#open(one);
  }
}

function toFault(error: unknown): Fault {
  if (error instanceof StepFailure) return error.fault;
  return { message: toErrorMessage(error) };
}
