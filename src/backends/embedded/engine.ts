import { dirname } from "node:path";
import { ServeError } from "../../core/error.ts";
import type { Logger } from "../../core/log.ts";
import { findChange, isSameCode } from "../../engine/changes.ts";
import { toTransitionEvent } from "../../engine/events.ts";
import type {
  Engine,
  Execution,
  ExecutionState,
  LifecycleEvent,
  ListFilter,
  LiveEvent,
  Position,
  Program,
  Resume,
  Settled,
  Transition,
} from "../../engine/types.ts";
import { readEvents } from "./event-log.ts";
import { prepareFolder } from "./folder.ts";
import { lock, whenFree, type WaitOptions } from "./lock.ts";
import { Readers } from "./readers.ts";
import { startRetention } from "./retention.ts";
import { EmbeddedRun, eventsOf, toSignalRow, type Step } from "./run.ts";
import { toStoreError } from "./sqlite-error.ts";
import { Slots } from "./slots.ts";
import { Store, type StoredState } from "./store.ts";
import { Waiters } from "./waiters.ts";
import { Writer, type Job } from "./writer.ts";

export interface EmbeddedOptions {
  readonly path: string;
  readonly durability: "normal" | "full";
  readonly retentionMs: number | undefined;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  readonly logger: Logger;
}

/** The engine on one SQLite file, with one writer. */
export class EmbeddedEngine implements Engine {
  readonly #options: EmbeddedOptions;
  // Opened by `open`: until then nobody asks.
  #store!: Store;
  #unlock = (): void => {};
  #stopRetention = (): void => {};
  readonly #writer: Writer;
  readonly #readers: Readers;
  readonly #slots: Slots;
  readonly #logger: Logger;
  /** What this process drives. An execution that is suspended with nothing in flight is not among them. */
  readonly #runs = new Map<string, EmbeddedRun>();
  readonly #waiters = new Waiters();
  readonly #closing = new AbortController();
  #whenIdle = (): void => {};

  constructor(options: EmbeddedOptions) {
    this.#options = options;
    this.#logger = options.logger;
    this.#readers = new Readers(options.sseBufferBytes);
    this.#slots = new Slots({ running: options.runningExecutions, queued: options.queuedExecutions });
    this.#writer = new Writer({
      transaction: (work) => this.#store.transaction(work),
      onFault: (error) => {
        this.#logger.error("The store cannot be written; what runs goes on when it can", { error });
      },
      onMended: () => this.#logger.info("The store can be written again"),
    });
  }

  async open(programOf: (workflowId: string) => Program | undefined): Promise<void> {
    try {
      await this.#openStore();
      const running = this.#store.running();
      await Promise.all(running.map((state) => this.#recover(state, programOf(state.execution.workflowId))));
    } catch (error) {
      this.#closeStore();
      throw toStoreError(this.#options.path, error);
    }
    const { retentionMs } = this.#options;
    if (retentionMs !== undefined) this.#stopRetention = startRetention(this.#store, this.#writer, retentionMs);
  }

  async #openStore(): Promise<void> {
    const { path, durability } = this.#options;
    const onWait = (): void => this.#logger.info("Another process is using the store: waiting for it to leave");
    const waiting: WaitOptions = { waitMs: 15_000, onWait, signal: this.#closing.signal };
    if (path !== ":memory:") {
      prepareFolder(dirname(path));
      this.#unlock = await whenFree(() => lock(path), waiting);
    }
    this.#store = await whenFree(() => new Store(path, durability), waiting);
  }

  /** It was running when the process ended: it goes on, unless its code has changed or it must not. */
  async #recover(state: StoredState, program: Program | undefined): Promise<void> {
    const at = Date.now();
    const { id, workflowId, steps } = state.execution;
    if (program?.recovery === "fail")
      return void (await this.#decide(state, { at, to: "error", error: { message: interrupted, shown: true } }));
    let change = program ? findChange(steps, program.steps, () => this.#begun(id)) : `workflow ${workflowId} is gone`;
    if (program && change === undefined) {
      const run = this.#load(state, program);
      if (run instanceof EmbeddedRun) return this.#slots.enter(run);
      ({ change } = run);
    }
    const reason = `Workflow changed: ${change}`;
    this.#logger.warn("An execution cannot go on", { executionId: id, workflowId, reason });
    await this.#decide(state, { at, to: "suspended", reason, pending: [], position: this.#lastPosition(id) });
  }

  // What is asked for.

  async begin(execution: Execution, program: Program): Promise<{ created: boolean }> {
    if (this.#isClosing) throw shuttingDown();
    const release = this.#slots.reserve();
    const number = this.#store.newNumber();
    const run = this.#createRun({ number, execution, status: "running", epoch: 0 }, program);
    const { promise, resolve, reject } = Promise.withResolvers<{ created: boolean }>();
    const end = (): void => {
      release();
      run.leave();
    };
    this.#write(run, run.begin(), {
      done: (created) => {
        if (created) {
          this.#runs.set(execution.id, run);
          this.#slots.enter(run);
          release();
        } else end();
        resolve({ created });
      },
      fail: (error) => {
        end();
        reject(this.#isClosing ? shuttingDown() : error);
      },
      onFault: (cause) => {
        end();
        reject(unavailable("Storage cannot be written: nothing was begun", cause));
        return true;
      },
    });
    return promise;
  }

  async state(id: string): Promise<ExecutionState | undefined> {
    return this.#runs.get(id)?.state ?? this.#store.state(id);
  }

  async list(filter: ListFilter): Promise<ExecutionState[]> {
    return this.#store.list(filter);
  }

  running(workflowId: string): number {
    const runs = [...this.#runs.values()];
    return runs.filter(({ state }) => state.status === "running" && state.execution.workflowId === workflowId).length;
  }

  async begun(id: string): Promise<ReadonlySet<string> | undefined> {
    return this.#runs.has(id) ? undefined : this.#begun(id);
  }

  #begun(id: string): ReadonlySet<string> {
    const starts = this.#store.events(id, 0).filter(({ type }) => type === "step-start");
    return new Set(starts.map(({ from }) => from!));
  }

  /** The innermost step that had begun and not ended. */
  #lastPosition(id: string): Position | undefined {
    const open = new Map<string, Position>();
    for (const { type, from = "", stepIndex } of this.#store.events(id, 0)) {
      if (type === "step-start") open.set(from, { stepId: from, stepIndex: stepIndex as number }); // as the walk says it
      if (type === "step-complete") open.delete(from);
    }
    return [...open.values()].at(-1);
  }

  async settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    const state = this.#runs.get(id)?.state ?? this.#store.state(id);
    const isSettled = state && state.status !== "running" && state.epoch > afterEpoch;
    return isSettled ? state : this.#waiters.next(id, afterEpoch, signal);
  }

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const run = this.#runs.get(id);
    if (run?.ahead.status !== "running") return false;
    const { position } = run;
    return this.#signal(run, { at: Date.now(), to: "suspended", reason, pending: [], position });
  }

  async resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false> {
    if (this.#isClosing) throw shuttingDown();
    const loaded = this.#runs.get(id);
    const { status, epoch: found } = loaded?.ahead ?? this.#store.state(id) ?? {};
    if (status !== "suspended" || found !== epoch) return false;
    const next: Transition = { at: Date.now(), to: "running", ...how };
    if (loaded) return this.#signal(loaded, next);
    const release = this.#slots.reserve();
    const run = this.#load(this.#store.state(id)!, program);
    if (run instanceof EmbeddedRun) this.#slots.enter(run);
    release();
    if (!(run instanceof EmbeddedRun)) throw new ServeError(409, `Workflow changed: ${run.change}`);
    // Nothing of it is in flight: when it cannot be written it is forgotten again, as if nobody had asked.
    return this.#signal(run, next, true);
  }

  async cancel(id: string, reason: string): Promise<ExecutionState | false> {
    const run = this.#runs.get(id);
    const state = run?.ahead ?? this.#store.state(id);
    if (state?.status !== "running" && state?.status !== "suspended") return false;
    const next: Transition = { at: Date.now(), to: "error", cancellation: { reason } };
    return run ? this.#signal(run, next) : this.#decide(state, next);
  }

  /** Somebody decides about an execution that is driven here. */
  #signal(run: EmbeddedRun, next: Transition, mayForget = false): Promise<ExecutionState | false> {
    const refused = (cause: unknown): ServeError =>
      unavailable(
        mayForget ? "Storage cannot be written: nothing was changed" : "Storage cannot be written now",
        cause,
      );
    if (this.#writer.fault && !mayForget) throw refused(this.#writer.fault);
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
    const step = run.signal(next);
    this.#write(run, step, {
      done: (won) => {
        if (!won) this.#forget(run); // it was ended while it was being loaded
        resolve(won && step.states[0]!);
      },
      fail: (error) => {
        this.#halt(run, error);
        reject(this.#isClosing ? shuttingDown() : error);
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
  #decide(state: StoredState, next: Transition): Promise<ExecutionState | false> {
    const { number, execution } = state;
    const epoch = state.epoch + 1;
    const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
    this.#writer.write<Step | undefined>({
      work: () => {
        const seq = this.#store.lastSeq(number);
        const row = toSignalRow(epoch, next);
        const states = [{ ...state, status: next.to, epoch, last: next }];
        const step: Step = {
          row,
          at: next.at,
          seq: seq + 1,
          events: [toTransitionEvent(next)],
          starts: [],
          states,
        };
        return this.#save(number, execution, step) ? step : undefined;
      },
      done: (step) => {
        if (step) this.#publish(execution.id, step);
        resolve(step ? step.states[0]! : false);
      },
      fail: reject,
      onFault: (cause) => {
        reject(unavailable("Storage cannot be written: nothing was changed", cause));
        return true;
      },
    });
    return promise;
  }

  // What happens.

  #createRun(state: StoredState, { drive }: Program): EmbeddedRun {
    return new EmbeddedRun(state, {
      drive,
      live: (event) => this.#readers.publish(state.execution.id, event),
      ended: (run, key, settled) => this.#record(run, key, settled),
    });
  }

  /** An execution of the file, driven here from now on; or why this code cannot. */
  #load(found: StoredState, program: Program): EmbeddedRun | { change: string } {
    const { number } = found;
    const { steps } = program;
    const run = this.#createRun({ ...found, execution: { ...found.execution, steps } }, program);
    const lost = run.replay(this.#store.journal(number));
    if (lost !== undefined) {
      run.leave();
      return { change: `${lost} ended as this code does not expect` };
    }
    this.#runs.set(run.execution.id, run);
    // What it begins from now on are steps of this code: with that the next one will be compared.
    if (!isSameCode(found.execution.steps, steps))
      this.#writer.write({
        work: () => this.#store.redefine(number, steps),
        done: () => {},
        fail: (error) => this.#halt(run, error),
      });
    return run;
  }

  /** An attempt has ended. Nobody waits for one that lost a race, or whose execution was cancelled. */
  #record(run: EmbeddedRun, key: string, settled: Settled): void {
    if (this.#runs.get(run.execution.id) !== run) return;
    if (!run.isWaitedFor(key)) return this.#afterwards(run);
    this.#write(run, run.settle(key, settled), {
      done: (won) => won || this.#halt(run, new Error("Somebody else has changed it in the file")),
      fail: (error) => this.#halt(run, error),
      onFault: (cause) => {
        const { id } = run.execution;
        this.#waiters.refuse(id, unavailable(`Execution ${id} goes on when storage can be written again`, cause));
        return false;
      },
    });
  }

  /** Once what a row brings about is durable, it is seen, and what it calls for is started. */
  #write(run: EmbeddedRun, step: Step, { done, fail, onFault }: Reactions): void {
    const { number, execution } = run;
    run.writing++;
    this.#writer.write<boolean>({
      work: () => this.#save(number, execution, step),
      done: (won) => {
        run.writing--;
        done(won);
        if (!won) return;
        this.#publish(execution.id, step);
        run.committed(step);
        this.#afterwards(run);
      },
      fail,
      ...(onFault && { onFault }),
    });
  }

  #save(number: number, execution: Execution, { row, seq, events, states }: Step): boolean {
    if (!row && !this.#store.begin(number, execution, events)) return false;
    for (const { epoch, last } of states) if (!this.#store.move(number, epoch - 1, last!)) return false;
    if (row) this.#store.add(number, row, seq, events);
    return true;
  }

  /** To whoever listens, and to whoever waits for a suspension or an end. */
  #publish(id: string, step: Step): void {
    if (this.#readers.has(id)) for (const event of eventsOf(id, step)) this.#readers.publish(id, event);
    for (const state of step.states) if (state.status !== "running") this.#waiters.notify(id, state);
  }

  /** What has ended, or waits for somebody, is forgotten: the journal has it all. */
  #afterwards(run: EmbeddedRun): void {
    if (run.isIdle) this.#forget(run);
    this.#checkIdle();
  }

  #forget(run: EmbeddedRun): void {
    if (this.#runs.get(run.execution.id) !== run) return;
    this.#runs.delete(run.execution.id);
    run.leave();
    this.#slots.leave(run);
  }

  /** A row of it can never be written. It stays as it is in the file, where the next start finds it. */
  #halt(run: EmbeddedRun, error: unknown): void {
    const { id } = run.execution;
    this.#forget(run);
    if (this.#isClosing) return;
    this.#logger.error("An execution stopped", { error, executionId: id });
    this.#waiters.refuse(id, new ServeError(500, `Execution ${id} stopped`));
    this.#readers.close(id);
  }

  events(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<LifecycleEvent | LiveEvent> {
    const isRunning = (): boolean => this.#runs.get(id)?.state.status === "running";
    return readEvents(this.#store, id, this.#readers.open(id, signal), afterSeq, isRunning);
  }

  /**
   * Starts nothing more and lets steps in flight finish within the grace: whoever waits for an execution that they end
   * hears of it. The rest is left to the next start.
   */
  async close({ drainMs }: { drainMs: number }): Promise<void> {
    this.#closing.abort();
    for (const run of this.#runs.values()) run.stop();
    this.#readers.closeAll();
    const idle = Promise.withResolvers<void>();
    this.#whenIdle = idle.resolve;
    this.#checkIdle();
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(over.resolve, drainMs);
    await Promise.race([idle.promise.then(() => this.#writer.idle()), over.promise]);
    clearTimeout(timer);
    this.#waiters.close(shuttingDown());
    this.#stopRetention();
    this.#writer.close();
    for (const run of this.#runs.values()) run.leave();
    this.#closeStore();
  }

  #closeStore(): void {
    this.#store?.close();
    this.#unlock();
    this.#unlock = () => {};
  }

  get #isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  #checkIdle(): void {
    if (this.#isClosing && ![...this.#runs.values()].some(({ inFlight }) => inFlight > 0)) this.#whenIdle();
  }
}

/** What becomes of a step that is written. */
interface Reactions {
  /** False when somebody else was first. */
  readonly done: (won: boolean) => void;
  readonly fail: (error: unknown) => void;
  readonly onFault?: Job["onFault"];
}

const interrupted = "Interrupted by a restart";
const shuttingDown = (): ServeError => new ServeError(503, "Server is shutting down");
const unavailable = (message: string, cause: unknown): ServeError =>
  new ServeError(503, message, { cause, headers: [["retry-after", "1"]] });
