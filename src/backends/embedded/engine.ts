import { dirname } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { systemClock, type Clock } from "../../core/clock.ts";
import { ServeError } from "../../core/error.ts";
import { attempt } from "../../core/attempt.ts";
import { findMismatch, hasSameSteps } from "../../engine/compare-steps.ts";
import type { Conversations } from "../../engine/conversations.ts";
import type { Engine, EngineLoad, ListFilter, ListPage, OpenOptions, Program, Resume } from "../../engine/backend.ts";
import type { Execution, ExecutionState, Position, Transition } from "../../engine/execution.ts";
import type { StoredEvent, LiveEvent } from "../../engine/events.ts";
import { EmbeddedConversations } from "./conversations.ts";
import { createPrivately, makePrivate } from "./file/data-file.ts";
import { prepareFolder } from "./file/folder.ts";
import { Runs, stopped, type EmbeddedRun, type RunsOptions } from "./runs.ts";
import { findHolder, recordHolder, toHolderText } from "./file/holder.ts";
import { holdFile, isHeld } from "./file/held-files.ts";
import { whenFree, type WaitOptions } from "./file/lock.ts";
import { readEvents, type EventCursor, type EventPage } from "../../engine/runs/read-events.ts";
import { Run } from "../../engine/runs/run.ts";
import type { Admissible } from "../../engine/runs/slots.ts";
import type { Retention } from "../../engine/retention.ts";
import { Recovery } from "./recovery.ts";
import { startRetention } from "./retention.ts";
import { format } from "./store/sql.ts";
import { Space, storeFull } from "./file/space.ts";
import { toStoreError } from "./file/sqlite-error.ts";
import { Store, type StoredState } from "./store/store.ts";
import { startWatch, type Watch } from "./file/watch.ts";

export interface EmbeddedOptions extends Omit<RunsOptions, "store"> {
  readonly path: string;
  readonly durability: "normal" | "full";
  readonly retention: Retention;
  readonly storeBytes?: number | undefined;
  readonly storeFreeBytes?: number | undefined;
}

/** The engine on one SQLite file. This process is its only writer. */
export class EmbeddedEngine implements Engine {
  readonly clock: Clock;
  readonly #options: EmbeddedOptions;
  // Set by `open`, which comes before any other call.
  #store!: Store;
  #runs!: Runs;
  #recovery: Recovery | undefined;
  /** Resolves when it is known which executions are continued, or the engine closes. */
  readonly #known = Promise.withResolvers<void>();
  #isStartMarked = false;
  #unlock = (): void => {};
  #stopRetention = (): void => {};
  #watch: Watch | undefined;
  #space!: Space;
  readonly #closing = new AbortController();
  readonly conversations: Conversations = new EmbeddedConversations(() => ({
    messages: this.#store.messages,
    writer: this.#runs.writer,
    space: this.#space,
  }));

  constructor(options: EmbeddedOptions) {
    this.#options = options;
    this.clock = options.clock ?? systemClock;
  }

  async open({ mayServe, onWait }: OpenOptions = {}): Promise<void> {
    const { path, retention } = this.#options;
    const { signal } = this.#closing;
    let refusal: unknown; // of `mayServe`, which is not about the store
    try {
      signal.throwIfAborted();
      await this.#openStore(onWait);
      await mayServe?.().catch((error: unknown) => {
        refusal = error;
        throw error;
      });
      signal.throwIfAborted(); // it may have been closed meanwhile
      this.#countCrashes();
      this.#space = new Space({ ...this.#options, usedBytes: () => this.#store.usedBytes() });
      this.#runs = new Runs({ ...this.#options, store: this.#store });
    } catch (error) {
      this.#closeStore();
      throw refusal ?? toStoreError(path, error);
    }
    if (signal.aborted) return;
    this.#watch = startWatch(this.#store, this.#runs.writer);
    const isDriven = (id: string): boolean => this.#runs.get(id) !== undefined;
    this.#stopRetention = startRetention(retention, {
      store: this.#store,
      writer: this.#runs.writer,
      clock: this.clock,
      isDriven,
    });
  }

  /** A disk that is full or read-only does not prevent the start: everything can still be read. */
  #countCrashes(): void {
    try {
      this.#store.startProcess();
      this.#isStartMarked = true;
    } catch (error) {
      this.#options.logger.warn("The store cannot be written: an earlier crash is not counted", { error });
    }
  }

  async #openStore(onWaiting = (): void => {}): Promise<void> {
    const { path, durability, logger } = this.#options;
    const onWait = (): void => {
      const holder = isHeld(path) ? "A server that is closing" : `Another process${toHolderText(findHolder(path))}`;
      logger.info(`${holder} is using the store: waiting until it is free`);
      onWaiting();
    };
    const waiting: WaitOptions = { waitMs: 15_000, onWait, signal: this.#closing.signal };
    if (path !== ":memory:") {
      prepareFolder(dirname(path));
      createPrivately(`${path}-lock`);
      this.#unlock = await whenFree(() => holdFile(path, this.#closing.signal), waiting);
      createPrivately(path);
    }
    this.#store = await whenFree(() => new Store(path, durability), waiting);
    const { formerFormat } = this.#store;
    if (formerFormat === 0 || formerFormat === format) return;
    logger.info(`The data file was migrated from format ${formerFormat} to ${format}`);
    // Only once: access that is granted to others later stays.
    if (makePrivate(path)) logger.info("The data file can now be read by its owner only");
  }

  served(url: string): void {
    const { path } = this.#options;
    if (path !== ":memory:" && !this.#closing.signal.aborted) recordHolder(path, url);
  }

  async recover(programOf?: (workflowId: string) => Program | undefined): Promise<void> {
    this.#recovery = new Recovery({
      store: this.#store,
      runs: this.#runs,
      logger: this.#options.logger,
      load: (state, program, slot) => this.#load(state, program, slot),
      lastPosition: (id) => this.#lastPosition(id),
    });
    // A crash of this process would interrupt none of them.
    if (!programOf && this.#isStartMarked) attempt(() => this.#store.endProcess());
    const starting = this.#recovery.start(programOf);
    this.#known.resolve();
    try {
      await starting;
    } catch (error) {
      throw toStoreError(this.#options.path, error);
    }
  }

  isRecovered(): boolean {
    return this.#recovery?.isFinished ?? false;
  }

  /** Replays an execution and registers its run; returns the first mismatch when it does not fit the program. */
  async #load(state: StoredState, program: Program, slot?: Admissible): Promise<EmbeddedRun | { mismatch: string }> {
    const { id, steps } = state.execution;
    const isSame = hasSameSteps(steps, program.steps);
    const mismatch = isSame ? undefined : findMismatch(steps, program.steps, await this.#startedSteps(id));
    return mismatch === undefined ? this.#runs.load(state, program, slot) : { mismatch };
  }

  /** The innermost step that had begun and not ended. */
  async #lastPosition(id: string): Promise<Position | undefined> {
    const open = new Map<string, Position>();
    for await (const page of this.#store.allEvents(id)) {
      for (const { type, from = "", stepIndex } of page) {
        if (type === "step-start") open.set(from, { stepId: from, stepIndex: stepIndex as number }); // as the walk says it
        if (type === "step-complete") open.delete(from);
      }
    }
    return [...open.values()].at(-1);
  }

  async begin(execution: Execution, program: Program): Promise<{ created: boolean }> {
    // A call that is repeated hears that its execution exists.
    if (this.#space.isFull && !this.#committed(execution.id)) throw storeFull("nothing was started");
    return { created: await this.#runs.begin(execution, program) };
  }

  async state(id: string): Promise<ExecutionState | undefined> {
    return this.#committed(id);
  }

  #committed(id: string): StoredState | undefined {
    return this.#runs.get(id)?.committed ?? this.#store.state(id);
  }

  /** Status and epoch of an execution, with the transitions that are being written. */
  #decided(id: string): Pick<ExecutionState, "status" | "epoch"> | undefined {
    return this.#runs.get(id)?.decided ?? this.#store.state(id);
  }

  list(filter: ListFilter): Promise<ListPage> {
    return this.#store.list.read(filter);
  }

  running(workflowId: string): number {
    const isOne = ({ status, execution }: ExecutionState): boolean =>
      status === "running" && execution.workflowId === workflowId;
    const driven = this.#runs.all().filter(({ committed }) => isOne(committed)).length;
    return driven + (this.#recovery?.count(workflowId) ?? 0);
  }

  async load(workflowIds: Iterable<string>): Promise<EngineLoad> {
    const suspended = new Map<string, number>();
    for (const id of workflowIds) {
      await nextTurn(); // each count takes up to some milliseconds
      if (!this.#closing.signal.aborted) suspended.set(id, this.#store.countSuspended(id));
    }
    const { running, queued } = this.#runs.slots;
    return { running, queued, suspended };
  }

  async startedSteps(id: string): Promise<ReadonlySet<string> | undefined> {
    return this.#runs.get(id) ? undefined : this.#startedSteps(id);
  }

  async #startedSteps(id: string): Promise<ReadonlySet<string>> {
    const paths = new Set<string>();
    try {
      for await (const page of this.#store.allEvents(id))
        for (const { type, from = "" } of page) if (type === "step-start") paths.add(from);
    } catch (error) {
      throw this.#runs.toAnswer(error);
    }
    return paths;
  }

  async settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    if (!this.#recovery) await this.#known.promise;
    const state = this.#committed(id);
    if (state && state.status !== "running" && state.epoch > afterEpoch) return state;
    if (state?.status === "running" && !this.#isDriven(id)) throw this.#runs.toAnswer(stopped(id));
    return this.#runs.waiters.next(id, afterEpoch, signal);
  }

  events(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<StoredEvent | LiveEvent> {
    const readPage = (after: EventCursor): EventPage => this.#store.events(id, after);
    const read = (after: EventCursor): EventPage | Promise<EventPage> =>
      this.#recovery ? readPage(after) : this.#known.promise.then(() => readPage(after));
    const isRunning = (): boolean => this.#runs.get(id)?.committed.status === "running" || this.#isLeft(id);
    return readEvents({ read, isRunning }, this.#runs.readers.open(id, signal), afterSeq);
  }

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const toNext = (position: Position | undefined): Transition => {
      return { at: this.clock.now(), to: "suspended", reason, pending: [], position };
    };
    if (!this.#recovery) await this.#known.promise;
    if (this.#isLeft(id)) return this.#recovery!.suspend(id, toNext);
    const run = this.#runs.get(id);
    if (run) return run.decided.status === "running" && this.#runs.command(run, toNext(run.position));
    const state = this.#store.state(id);
    if (state?.status !== "running") return false;
    return this.#runs.commandUndriven(state, toNext(await this.#lastPosition(id))); // it was not recovered
  }

  async resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false> {
    this.#runs.refuseWhenClosing();
    const isStill = (): boolean => {
      const now = this.#decided(id);
      return now?.status === "suspended" && now.epoch === epoch;
    };
    if (!isStill()) return false;
    const toNext = (): Transition => ({ at: this.clock.now(), to: "running", ...how });
    const driven = this.#runs.get(id);
    if (driven) return this.#runs.command(driven, toNext());
    const state = this.#store.state(id)!;
    const release = this.#runs.slots.reserve();
    const run = await this.#load(state, program).finally(release);
    if (!isStill()) return false; // another resume was first, or a cancel
    if (!(run instanceof Run)) throw new ServeError(409, `Workflow changed: ${run.mismatch}`);
    // Nothing of it is in flight: if the store cannot be written, the run is forgotten again.
    return this.#runs.command(run, toNext(), true);
  }

  async cancel(id: string, reason: string): Promise<ExecutionState | false> {
    if (!this.#recovery) await this.#known.promise;
    if (this.#isLeft(id)) {
      const made = await this.#recovery!.command(id, this.#toCancellation(reason));
      if (made !== undefined) return made;
    }
    const run = this.#runs.get(id);
    const state = run?.committed ?? this.#store.state(id);
    const status = run?.decided.status ?? state?.status;
    if (!state || (status !== "running" && status !== "suspended")) return false;
    const next = this.#toCancellation(reason);
    return run ? this.#runs.command(run, next) : this.#runs.commandUndriven(state, next);
  }

  isWritable(): boolean {
    return this.#watch?.isWritable() ?? false;
  }

  async close({ drainMs, beside }: { drainMs: number; beside?: Promise<unknown> }): Promise<void> {
    this.#closing.abort();
    this.#known.resolve();
    this.#stopRetention();
    this.#watch?.stop();
    await this.#runs?.close(drainMs, beside);
    // A start that was not marked has not counted the last crash: the next one does.
    if (this.#isStartMarked) attempt(() => this.#store.endProcess()); // a disk that cannot be written makes it look like a crash
    this.#closeStore();
  }

  /** Whether an execution has a run, or will have one. */
  #isDriven(id: string): boolean {
    return this.#runs.get(id) !== undefined || this.#isLeft(id);
  }
  #isLeft(id: string): boolean {
    return this.#recovery?.has(id) ?? false;
  }

  #closeStore(): void {
    this.#store?.close();
    this.#unlock();
    this.#unlock = () => {};
  }

  #toCancellation(reason: string): Transition {
    return { at: this.clock.now(), to: "error", cancellation: { reason } };
  }
}
