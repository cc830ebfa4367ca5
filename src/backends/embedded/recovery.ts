import { setTimeout as sleep } from "node:timers/promises";
import { ServeError } from "../../core/error.ts";
import { withIds, type Logger } from "../../core/log.ts";
import type { Program } from "../../engine/backend.ts";
import type { ExecutionState, Position, Transition } from "../../engine/execution.ts";
import type { Admissible } from "../../engine/runs/slots.ts";
import { unavailable } from "./file/sqlite-error.ts";
import { stopped, unknownDensity, type EmbeddedRun, type Runs } from "./runs.ts";
import { maxCrashes } from "./store/sql.ts";
import type { LeftExecution, Store, StoredState } from "./store/store.ts";

export interface RecoveryOptions {
  readonly store: Store;
  readonly runs: Runs;
  readonly logger: Logger;
  /** Replays an execution and registers its run, which takes over the slot; or returns the first mismatch with the code. */
  readonly load: (
    state: StoredState,
    program: Program,
    slot: Admissible,
  ) => Promise<EmbeddedRun | { mismatch: string }>;
  /** The innermost step that had started and not ended. */
  readonly lastPosition: (id: string) => Promise<Position | undefined>;
  /** The time after which a suspect that runs no longer holds up the next one. @default 30000 */
  readonly suspectMs?: number;
}

/**
 * Continues the executions that were running when the last process ended.
 *
 * It owns those that have no run yet. A *suspect* is an execution that two crashes in a row have interrupted at the same row.
 * V1. An execution is loaded when it gets a slot, in the order of their start. Until then only its ids are in memory.
 * V2. Suspects start one at a time: the next one when the last one has made a row or left, or after `suspectMs`.
 * V3. That a suspect has started is durable before its code runs. If the process dies before its next row, it is suspended.
 */
export class Recovery {
  readonly #options: RecoveryOptions;
  readonly #left = new Map<string, Left>();
  #programOf: (workflowId: string) => Program | undefined = () => undefined;
  #isFinished = false;

  constructor(options: RecoveryOptions) {
    this.#options = options;
  }

  /** Resolves when every execution is loaded, queued, suspended or ended. Without programs it continues none. */
  async start(programOf: ((workflowId: string) => Program | undefined) | undefined): Promise<void> {
    const { runs, logger } = this.#options;
    const suspects = programOf ? await this.#enterAll(programOf) : [];
    if (runs.isClosing) return;
    runs.slots.open();
    await Promise.all([...this.#left.values()].map(({ loading }) => loading));
    this.#isFinished = true;
    this.#startSuspects(suspects).catch((error: unknown) => {
      if (!runs.isClosing)
        logger.error("Executions that crashed twice could not be continued: the next start tries again", {
          error,
        });
    });
  }

  /** Queues the executions for their slots, and returns the suspects. All are known before the first pause. */
  async #enterAll(programOf: (workflowId: string) => Program | undefined): Promise<Left[]> {
    const { store, runs } = this.#options;
    const suspects: Left[] = [];
    this.#programOf = programOf;
    const crashing: Left[] = [];
    const transitions: Promise<unknown>[] = [];
    const end = (left: Left, next: Transition): void => {
      const made = this.command(left.found.id, next);
      transitions.push(made.catch((error: unknown) => this.#giveUp(left, error)));
    };
    for (const found of store.leftRunning()) {
      const left = new Left(found, (one) => this.#load(one));
      this.#left.set(found.id, left);
      if (found.crashes > maxCrashes) crashing.push(left);
      else if (programOf(found.workflowId)?.recovery === "fail")
        end(left, { at: runs.clock.now(), to: "error", error: { message: interrupted, shown: true } });
      else if (found.crashes === maxCrashes) suspects.push(left);
      else runs.slots.enter(left, found.bytes * unknownDensity);
    }
    for (const left of crashing) {
      const next = await this.#toSuspension(left.found.id, crashed).catch((error: unknown) =>
        this.#giveUp(left, error),
      );
      if (next) end(left, next);
    }
    await Promise.all(transitions);
    return suspects;
  }

  get isFinished(): boolean {
    return this.#isFinished;
  }
  has(id: string): boolean {
    return this.#left.has(id);
  }
  /** The number of executions of a workflow that have no run yet. */
  count(workflowId: string): number {
    return [...this.#left.values()].filter(({ found }) => found.workflowId === workflowId).length;
  }

  /** Makes a transition of an execution that has no run yet; undefined when it has one, or is not one of these. */
  async command(id: string, next: Transition): Promise<ExecutionState | false | undefined> {
    const { store, runs } = this.#options;
    return this.#claim(id, async () => runs.commandUndriven(store.state(id)!, next, () => this.#left.delete(id)));
  }

  /** Suspends an execution that has no run yet. It is loaded for that, because only its walk knows its position. */
  async suspend(id: string, toNext: (position: Position) => Transition): Promise<ExecutionState | false> {
    const { runs } = this.#options;
    const made = await this.#claim(id, async (left) => {
      // Without a slot: none of its steps may start.
      await this.#load(left, { admit() {} }).catch((error: unknown) => {
        throw error instanceof ServeError ? error : unavailable("Storage cannot be read: nothing was changed", error);
      });
      runs.refuseWhenClosing();
      const run = runs.get(id);
      return run ? runs.command(run, toNext(run.position)) : false;
    });
    if (made !== undefined) return made;
    const run = runs.get(id);
    return run?.decided.status === "running" && runs.command(run, toNext(run.position));
  }

  /** Takes an execution out of the queue for a transition. Undefined when it has a run, or is not one of these. */
  async #claim<T>(id: string, act: (left: Left) => Promise<T>): Promise<T | undefined> {
    const left = this.#left.get(id);
    if (!left) return undefined;
    while (this.#isBusy(left)) await left.loading;
    if (!this.#left.has(id)) return undefined;
    const acting = this.#act(left, act);
    left.loading = Promise.allSettled([acting]);
    return acting;
  }

  #isBusy({ loading, found }: Left): boolean {
    return loading !== undefined && this.#left.has(found.id);
  }

  async #act<T>(left: Left, act: (left: Left) => Promise<T>): Promise<T> {
    const { runs } = this.#options;
    const { id, bytes } = left.found;
    const wasQueued = runs.slots.leave(left); // a suspect whose turn has not come was not
    try {
      const made = await act(left);
      left.drop();
      return made;
    } catch (error) {
      left.loading = undefined;
      const again = runs.get(id) ?? (wasQueued && this.#left.has(id) ? left : undefined);
      if (again) runs.slots.enter(again, bytes * unknownDensity);
      throw error;
    }
  }

  async #load(left: Left, slot: Admissible = left): Promise<void> {
    const { store, runs, load } = this.#options;
    const { id, workflowId } = left.found;
    try {
      const state = store.state(id)!;
      const program = this.#programOf(workflowId);
      const loaded = program
        ? await load(state, program, slot)
        : { mismatch: `workflow ${workflowId} no longer exists` };
      if ("mismatch" in loaded) {
        const reason = `Workflow changed: ${loaded.mismatch}`;
        this.#loggerOf(left).warn("Execution suspended: its workflow has changed", { reason });
        await runs.commandUndriven(state, await this.#toSuspension(id, reason), () => this.#left.delete(id));
      }
    } catch (error) {
      if (slot !== left) throw error; // of a suspend: the execution keeps its place in the queue
      this.#giveUp(left, error);
    }
    this.#left.delete(id);
    runs.slots.leave(left);
  }

  /** Leaves an execution to the next start. */
  #giveUp(left: Left, error: unknown): void {
    const { runs } = this.#options;
    const { id } = left.found;
    this.#left.delete(id);
    runs.readers.close(id);
    if (runs.isClosing) return; // all waiters are refused
    this.#loggerOf(left).error("An execution could not be loaded; the next start tries again", { error });
    runs.waiters.refuse(id, stopped(id));
  }

  #loggerOf({ found: { id, workflowId } }: Left): Logger {
    return withIds(this.#options.logger, { executionId: id, workflowId });
  }

  async #toSuspension(id: string, reason: string): Promise<Transition> {
    const position = await this.#options.lastPosition(id);
    return { at: this.#options.runs.clock.now(), to: "suspended", kind: "system", reason, pending: [], position };
  }

  async #startSuspects(suspects: readonly Left[]): Promise<void> {
    const { runs, store, suspectMs = 30_000 } = this.#options;
    for (const suspect of suspects) {
      const { id, number, bytes } = suspect.found;
      if (runs.isClosing) return;
      if (!this.#left.has(id)) continue;
      await runs.write(() => store.isolate(number));
      while (this.#isBusy(suspect)) await suspect.loading;
      if (runs.isClosing) return;
      if (!this.#left.has(id)) continue;
      const changed = runs.nextChange(id);
      runs.slots.enter(suspect, bytes * unknownDensity);
      await suspect.admitted;
      await suspect.loading;
      await Promise.race([runs.get(id) ? changed : undefined, sleep(suspectMs, undefined, { ref: false })]);
    }
  }
}

/** An execution that has no run yet. */
class Left implements Admissible {
  readonly found: LeftExecution;
  readonly #load: (left: Left) => Promise<void>;
  /** It is being loaded, or a transition of it is being written. Never rejects. */
  loading: Promise<unknown> | undefined;
  readonly #admitted: PromiseWithResolvers<void> = Promise.withResolvers();

  constructor(found: LeftExecution, load: (left: Left) => Promise<void>) {
    this.found = found;
    this.#load = load;
  }

  /** Resolves when it has got a slot, or needs none any more. */
  get admitted(): Promise<void> {
    return this.#admitted.promise;
  }

  admit(): void {
    this.loading = this.#load(this);
    this.#admitted.resolve();
  }

  /** It needs no slot any more. */
  drop(): void {
    this.#admitted.resolve();
  }
}

const crashed = `Interrupted ${maxCrashes + 1} times by a crash`;
const interrupted = "Interrupted by a restart";
