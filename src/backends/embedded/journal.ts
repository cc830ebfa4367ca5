import { ServeError, shuttingDown } from "../../core/error.ts";
import { withIds, type Logger } from "../../core/log.ts";
import { isSameCode } from "../../engine/changes.ts";
import { toTransitionEvent } from "../../engine/events.ts";
import type { Execution, ExecutionState, Transition } from "../../engine/execution.ts";
import type { Program } from "../../engine/backend.ts";
import type { EntryResult } from "../../engine/walk/walk.ts";
import { Readers } from "../../engine/runs/readers.ts";
import { EmbeddedRun, eventsOf, toSignalRow, type Effect } from "./run.ts";
import { Slots } from "../../engine/runs/slots.ts";
import { unavailable } from "./sqlite-error.ts";
import type { Store, StoredState } from "./store.ts";
import { Waiters } from "../../engine/runs/waiters.ts";
import { Writer, type Job } from "./writer.ts";

export interface JournalOptions {
  readonly store: Store;
  readonly logger: Logger;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
}

/**
 * The executions that this process drives, and whatever is written about executions: once something is durable it is
 * seen, and what it calls for is started.
 */
export class Journal {
  readonly writer: Writer;
  readonly readers: Readers;
  readonly waiters: Waiters = new Waiters();
  readonly slots: Slots;
  readonly #store: Store;
  readonly #logger: Logger;
  /** An execution that is suspended with nothing in flight is not among them. */
  readonly #runs = new Map<string, EmbeddedRun>();
  #closing = false;
  #whenIdle = (): void => {};

  constructor({ store, logger, sseBufferBytes, runningExecutions, queuedExecutions }: JournalOptions) {
    this.#store = store;
    this.#logger = logger;
    this.readers = new Readers(sseBufferBytes);
    this.slots = new Slots({ running: runningExecutions, queued: queuedExecutions });
    this.writer = new Writer({
      transaction: (work) => store.transaction(work),
      onFault: (error) => logger.error("The store cannot be written; what runs goes on when it can", { error }),
      onMended: () => logger.info("The store can be written again"),
    });
  }

  get(id: string): EmbeddedRun | undefined {
    return this.#runs.get(id);
  }
  runs(): EmbeddedRun[] {
    return [...this.#runs.values()];
  }

  /** A new execution. False when there is one with this id already. */
  begin(execution: Execution, program: Program): Promise<boolean> {
    this.refuseWhenClosing();
    const release = this.slots.reserve();
    const number = this.#store.newNumber();
    const run = this.#createRun({ number, execution, status: "running", epoch: 0 }, program);
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const end = (): void => {
      release();
      run.leave();
    };
    this.#write(run, run.begin(), {
      done: (created) => {
        if (created) {
          this.#runs.set(execution.id, run);
          this.slots.enter(run);
          release();
        } else end();
        resolve(created);
      },
      fail: (error) => {
        end();
        reject(this.#toAnswer(error));
      },
      onFault: (cause) => {
        end();
        reject(unavailable("Storage cannot be written: nothing was begun", cause));
        return true;
      },
    });
    return promise;
  }

  /** An execution of the file, driven here from now on; or why this code cannot. */
  load(found: StoredState, program: Program): EmbeddedRun | { change: string } {
    const { number } = found;
    const { steps } = program;
    const run = this.#createRun({ ...found, execution: { ...found.execution, steps } }, program);
    const lost = run.replay(this.#store.journal(number));
    if (lost !== undefined) {
      run.leave();
      return { change: `${lost} ended as this code does not expect` };
    }
    this.#runs.set(run.execution.id, run);
    this.slots.enter(run);
    // What it begins from now on are steps of this code: with that the next one will be compared.
    if (!isSameCode(found.execution.steps, steps))
      this.writer.write({
        work: () => this.#store.redefine(number, steps),
        done: () => {},
        fail: (error) => this.#halt(run, error),
      });
    return run;
  }

  /** Somebody decides about an execution that is driven here. With nothing in flight it may be forgotten again. */
  signal(run: EmbeddedRun, next: Transition, mayForget = false): Promise<ExecutionState | false> {
    const outcome = mayForget ? "nothing was changed" : "ask for the state";
    const refused = (cause: unknown): ServeError => unavailable(`Storage cannot be written: ${outcome}`, cause);
    if (this.writer.fault && !mayForget) throw refused(this.writer.fault);
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
    const effect = run.signal(next);
    this.#write(run, effect, {
      done: (won) => {
        if (!won) this.#forget(run); // it was ended while it was being loaded
        resolve(won && effect.states[0]!);
      },
      fail: (error) => {
        this.#halt(run, error);
        reject(this.#toAnswer(error));
      },
      onFault: (cause) => {
        if (mayForget) this.#forget(run);
        reject(refused(cause));
        return mayForget;
      },
    });
    return promise;
  }

  /** Somebody decides about an execution that nobody drives: nothing follows from it but its event. */
  decide(state: StoredState, next: Transition): Promise<ExecutionState | false> {
    const { number, execution } = state;
    const epoch = state.epoch + 1;
    const states = [{ ...state, status: next.to, epoch, last: next }];
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
    this.writer.write<Effect | undefined>({
      work: () => {
        const seq = this.#store.lastSeq(number) + 1;
        const events = [toTransitionEvent(next)];
        const effect: Effect = { row: toSignalRow(epoch, next), at: next.at, seq, events, starts: [], states };
        return this.#save(number, execution, effect) ? effect : undefined;
      },
      done: (effect) => {
        if (effect) this.#publish(execution.id, effect);
        resolve(effect ? effect.states[0]! : false);
      },
      fail: reject,
      onFault: (cause) => {
        reject(unavailable("Storage cannot be written: nothing was changed", cause));
        return true;
      },
    });
    return promise;
  }

  #createRun(state: StoredState, { drive }: Program): EmbeddedRun {
    return new EmbeddedRun(state, {
      drive,
      live: (event) => this.readers.publish(state.execution.id, event),
      ended: (run, key, settled) => this.#record(run, key, settled),
    });
  }

  /** An attempt has ended. Nobody waits for one that lost a race, or whose execution was cancelled. */
  #record(run: EmbeddedRun, key: string, settled: EntryResult): void {
    const { id } = run.execution;
    if (this.#runs.get(id) !== run) return;
    if (!run.isWaitedFor(key)) return this.#afterwards(run);
    this.#write(run, run.settle(key, settled), {
      done: (won) => won || this.#halt(run, new Error("Somebody else has changed it in the file")),
      fail: (error) => this.#halt(run, error),
      onFault: (cause) => {
        this.waiters.refuse(id, unavailable(`Execution ${id} goes on when storage can be written again`, cause));
        return false;
      },
    });
  }

  #write(run: EmbeddedRun, effect: Effect, { done, fail, onFault }: Reactions): void {
    const { number, execution } = run;
    run.writing++;
    this.writer.write<boolean>({
      work: () => this.#save(number, execution, effect),
      done: (won) => {
        run.writing--;
        done(won);
        if (!won) return;
        this.#publish(execution.id, effect);
        run.committed(effect);
        this.#afterwards(run);
      },
      fail,
      onFault,
    });
  }

  #save(number: number, execution: Execution, { row, seq, events, states }: Effect): boolean {
    if (!row && !this.#store.begin(number, execution, events)) return false;
    for (const { epoch, last } of states) if (!this.#store.move(number, epoch - 1, last!)) return false;
    if (row) this.#store.add(number, row, seq, events);
    return true;
  }

  /** To whoever listens, and to whoever waits for a suspension or an end. */
  #publish(id: string, effect: Effect): void {
    if (this.readers.has(id)) for (const event of eventsOf(id, effect)) this.readers.publish(id, event);
    for (const state of effect.states) if (state.status !== "running") this.waiters.notify(id, state);
  }

  /** What has ended, or waits for somebody, is forgotten: the file has it all. */
  #afterwards(run: EmbeddedRun): void {
    if (run.isIdle) this.#forget(run);
    this.#checkIdle();
  }

  #forget(run: EmbeddedRun): void {
    if (this.#runs.get(run.execution.id) !== run) return;
    this.#runs.delete(run.execution.id);
    run.leave();
    this.slots.leave(run);
  }

  /** A row of it can never be written. It stays as it is in the file, where the next start finds it. */
  #halt(run: EmbeddedRun, error: unknown): void {
    const { id, workflowId, userId, conversationId } = run.execution;
    this.#forget(run);
    if (this.#closing) return;
    const logger = withIds(this.#logger, { executionId: id, workflowId, userId, conversationId });
    logger.error("An execution stopped", { error });
    this.waiters.refuse(id, new ServeError(500, `Execution ${id} stopped`));
    this.readers.close(id);
  }

  refuseWhenClosing(): void {
    if (this.#closing) throw shuttingDown();
  }

  #toAnswer(error: unknown): unknown {
    return this.#closing ? shuttingDown() : error;
  }

  /**
   * Starts nothing more and lets attempts in flight finish within the grace: whoever waits for an execution that they end
   * hears of it. The rest is left to the next start. What else writes here ends `beside`.
   */
  async close(drainMs: number, beside?: Promise<unknown>): Promise<void> {
    this.#closing = true;
    for (const run of this.#runs.values()) run.stop();
    this.readers.closeAll();
    const idle = Promise.withResolvers<void>();
    this.#whenIdle = idle.resolve;
    this.#checkIdle();
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(over.resolve, drainMs);
    const ended = Promise.all([idle.promise, beside]);
    await Promise.race([ended.then(() => this.writer.idle()), over.promise]);
    clearTimeout(timer);
    this.waiters.close(shuttingDown());
    this.writer.close();
    for (const run of this.#runs.values()) run.leave();
  }

  #checkIdle(): void {
    if (this.#closing && !this.runs().some(({ inFlight }) => inFlight > 0)) this.#whenIdle();
  }
}

/** What becomes of an effect that is to be written. */
interface Reactions {
  /** False when somebody else was first. */
  readonly done: (won: boolean) => void;
  readonly fail: (error: unknown) => void;
  readonly onFault: NonNullable<Job["onFault"]>;
}
