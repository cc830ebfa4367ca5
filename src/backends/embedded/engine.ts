import { dirname } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { systemClock, type Clock } from "../../core/clock.ts";
import { busy, notFound, ServeError } from "../../core/error.ts";
import type { JsonText } from "../../core/json.ts";
import { attempt } from "../../core/attempt.ts";
import { findMismatch, hasSameSteps } from "../../engine/compare-steps.ts";
import type { ForkSource } from "../../engine/fork.ts";
import type { HistoryRow } from "../../engine/contract/history.ts";
import type {
  BeginOptions,
  Begun,
  Engine,
  EngineLoad,
  EventsOptions,
  ChangedState,
  ExecutionChange,
  ListFilter,
  ListPage,
  OpenOptions,
  Resume,
  Retry,
} from "../../engine/contract/engine.ts";
import type { Program } from "../../engine/contract/program.ts";
import {
  describeSteps,
  type Execution,
  type ExecutionState,
  type Position,
  type Transition,
} from "../../engine/execution.ts";
import type { StoredEvent, LiveEvent } from "../../engine/events.ts";
import { EmbeddedConversations } from "./conversations.ts";
import { EmbeddedSchedules } from "./schedules.ts";
import { EmbeddedUsage } from "./usage.ts";
import { createPrivately, makePrivate } from "./file/data-file.ts";
import { prepareFolder } from "./file/folder.ts";
import { Drive } from "./drive.ts";
import { Runs, stopped, type RunsOptions } from "./runs.ts";
import { findHolder, recordHolder, toHolderText } from "./file/holder.ts";
import { holdFile, isHeld } from "./file/held-files.ts";
import { whenFree, type WaitOptions } from "./file/lock.ts";
import { readEvents, type EventCursor, type EventPage } from "../../engine/runs/read-events.ts";
import { toGroup, type Admissible, type GroupName, type Reservation } from "../../engine/runs/groups.ts";
import type { ChangeFilter } from "../../engine/runs/changes.ts";
import type { Retention } from "../../engine/retention.ts";
import { Recovery } from "./recovery.ts";
import { WaitingExecutions } from "./waiting-executions.ts";
import { startRetention } from "./retention.ts";
import { format } from "./store/sql.ts";
import { Space, storeFull } from "./file/space.ts";
import { toStoreError } from "./file/sqlite-error.ts";
import { Store, type StoredState } from "./store/store.ts";
import { startWatch, type Watch } from "./file/watch.ts";
import { findPosition } from "../../engine/steps/find-position.ts";
import type { ScheduleStore } from "../../engine/contract/schedules.ts";
import { readSteps } from "../../engine/steps/read-steps.ts";
import type { SentEvent, Sending, Share } from "../../engine/stored/sent-event.ts";
import { Mailbox } from "./waits/mailbox.ts";
import { Sleepers } from "./waits/sleepers.ts";
import { Timers } from "./waits/timers.ts";
import { agentOf, isTurn } from "../../engine/turn-execution.ts";
import { isLegal } from "../../engine/rules/transitions.ts";

export interface EmbeddedOptions extends Omit<RunsOptions, "store" | "limitOf"> {
  readonly path: string;
  readonly durability: "normal" | "full";
  readonly retention: Retention;
  /** The most events that are kept. @default 100000 */
  readonly storedEvents?: number | undefined;
  readonly storeBytes?: number | undefined;
  readonly storeFreeBytes?: number | undefined;
  readonly conversationBytes: number;
}

/** The engine on one SQLite file. This process is its only writer. */
export class EmbeddedEngine implements Engine {
  readonly clock: Clock;
  readonly #options: EmbeddedOptions;
  // Set by `open`, which comes before any other call.
  #store!: Store;
  #runs!: Runs;
  #waiting!: WaitingExecutions;
  #timers: Timers | undefined;
  #mailbox!: Mailbox;
  #recovery: Recovery | undefined;
  /** Resolves when it is known which executions are continued, or the engine closes. */
  readonly #known = Promise.withResolvers<void>();
  #isStartMarked = false;
  #unlock = (): void => {};
  #stopRetention = (): void => {};
  #watch: Watch | undefined;
  #space!: Space;
  readonly #closing = new AbortController();
  readonly conversations: EmbeddedConversations;
  readonly schedules: ScheduleStore = new EmbeddedSchedules(() => ({
    schedules: this.#store.schedules,
    writer: this.#runs.writer,
  }));
  readonly usage: EmbeddedUsage;

  constructor(options: EmbeddedOptions) {
    this.#options = options;
    this.clock = options.clock ?? systemClock;
    this.usage = new EmbeddedUsage(() => ({ usage: this.#store.usage, writer: this.#runs.writer }), options.logger);
    const dropTurn = (id: string): void => this.#dropTurn(id);
    const flushUsage = (): void => void this.usage.flush();
    const file = () => ({ store: this.#store, writer: this.#runs.writer, space: this.#space, dropTurn, flushUsage });
    this.conversations = new EmbeddedConversations(file, {
      maxBytes: options.conversationBytes,
      clock: this.clock,
      known: () => (this.#recovery ? undefined : this.#known.promise),
      loaded: () => this.#waiting.loaded(),
    });
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
      this.#space = new Space({ ...this.#options, hasBytes: (count) => this.#store.hasBytes(count) });
      const limitOf = (workflowId: string): number => this.#waiting.limitOf(workflowId);
      this.#runs = new Runs({ ...this.#options, store: this.#store, limitOf });
      this.#waiting = new WaitingExecutions({
        store: this.#store,
        runs: this.#runs,
        logger: this.#options.logger,
        load: (state, program, slot) => this.#load(state, program, slot),
        lastPosition: (id) => this.#lastPosition(id),
      });
      this.#openWaits();
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
      isBusy: (key) => this.conversations.isBusy(key),
      onRemoved: (id) => this.#runs.readers.close(id),
    });
  }

  #openWaits(): void {
    const { logger } = this.#options;
    const store = this.#store;
    const runs = this.#runs;
    const sleepers = new Sleepers({
      store,
      runs,
      waiting: this.#waiting,
      logger,
      load: (state, program, slot) => this.#load(state, program, slot),
      reserve: (group, program) => this.#reserve(group, program, (name) => runs.slots.reserveWake(name)),
    });
    const timers = new Timers({ store, runs, clock: this.clock, logger, sleepers });
    runs.onTurnEnd = (id) => this.conversations.giveUp(id);
    runs.onTimer = () => timers.added();
    runs.onClosing = () => void this.usage.flush();
    this.#timers = timers;
    const { storedEvents = 100_000 } = this.#options;
    const mailbox = new Mailbox({ store, runs, sleepers, logger, storedEvents });
    runs.onWait = (drive) => mailbox.onWait(drive);
    runs.mayContinue = (drive) => mailbox.mayContinue(drive);
    runs.onGone = (number) => mailbox.onGone(number);
    runs.findEvents = (drive) => mailbox.find(drive);
    this.#mailbox = mailbox;
  }

  async send(event: SentEvent, share: Share): Promise<Sending> {
    // One that is sent again hears that it is stored.
    if (this.#space.isFull && !this.#store.sentEvents.compare(event)) throw storeFull("nothing was sent");
    return this.#mailbox.send(event, share);
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
    const recovery = new Recovery({
      store: this.#store,
      runs: this.#runs,
      waiting: this.#waiting,
      logger: this.#options.logger,
      keepPlace: (id) => this.#keepPlace(id),
    });
    // A crash of this process would interrupt none of them.
    if (!programOf && this.#isStartMarked) attempt(() => this.#store.endProcess());
    try {
      if (programOf) await recovery.find();
      if (programOf) for (const place of this.#store.waits.places()) this.#runs.rests.holdPlace(place);
      // They are queued before requests that have waited for them continue.
      const starting = recovery.start(programOf);
      this.#setKnown(recovery);
      if (programOf && !this.#closing.signal.aborted) {
        this.#timers?.open();
        this.#mailbox.open();
      }
      await starting;
      if (programOf) await this.#cancelChildren();
    } catch (error) {
      this.#setKnown(recovery);
      throw toStoreError(this.#options.path, error);
    }
  }

  /** Keeps the place of a turn in its conversation: later turns wait for it. */
  #keepPlace(id: string): void {
    const { workflowId, userId, conversationId = "" } = this.#store.state(id)!.execution;
    this.conversations.keep({ agentId: agentOf(workflowId)!, userId, conversationId }, id);
  }

  /** Ends a turn that was removed with its conversation. */
  #dropTurn(id: string): void {
    const drive = this.#runs.get(id);
    if (drive) this.#runs.forget(drive);
    this.#waiting.forget(id);
    this.conversations.giveUp(id);
  }

  #setKnown(recovery: Recovery): void {
    this.#recovery = recovery;
    this.#known.resolve();
  }

  isRecovered(): boolean {
    return this.#recovery?.isFinished ?? false;
  }

  /** Replays an execution and registers its run; returns the first mismatch when it does not fit the program. */
  async #load(state: StoredState, program: Program, slot?: Admissible): Promise<Drive | { mismatch: string }> {
    const { id, steps } = state.execution;
    const isSame = hasSameSteps(steps, program.steps);
    const mismatch = isSame ? undefined : findMismatch(steps, program.steps, await this.#startedSteps(id));
    return mismatch === undefined ? this.#runs.load(state, program, slot) : { mismatch };
  }

  /** The place of an execution that has no run. */
  async #lastPosition(id: string): Promise<Position | undefined> {
    const execution = this.#store.state(id)?.execution;
    if (!execution) return undefined;
    const code = new Map(this.#waiting.programOf(execution.workflowId)?.steps.map((step) => [step[0], step[4]]));
    const steps = describeSteps(execution.steps, (path) => code.get(path));
    return findPosition(await readSteps(this, { ...execution, steps }, {}));
  }

  async begin(execution: Execution, program: Program, { write }: BeginOptions = {}): Promise<Begun> {
    let written: Promise<void> | undefined;
    const onWrite = (): void => {
      written = write?.();
      written?.catch(() => {}); // it is awaited below
    };
    try {
      return await this.#begin(execution, program, { onWrite });
    } finally {
      await written;
    }
  }

  fork(execution: Execution, program: Program, source: ForkSource): Promise<Begun> {
    return this.#begin(execution, program, { source });
  }

  /** `onWrite` is called when the start is handed to the writer. What it writes at once is part of the same commit. */
  async #begin(
    execution: Execution,
    program: Program,
    { source, onWrite }: { readonly source?: ForkSource; readonly onWrite?: () => void },
  ): Promise<Begun> {
    // A call that is repeated hears that its execution exists.
    if (this.#space.isFull && !this.#committed(execution.id)) throw storeFull("nothing was started");
    this.#runs.refuseWhenClosing();
    const group = toGroup(execution.workflowId, execution.concurrencyKey);
    const isChild = execution.parent !== undefined;
    const reserve = (name?: GroupName): Reservation =>
      isTurn(execution) ? noReservation : this.#runs.slots.reserve(name, isChild);
    const { isWaiting, release } = group ? await this.#reserve(group, program, reserve) : reserve();
    const wait = isWaiting ? this.#wait : undefined;
    const beginning = this.#runs.begin(execution, program, { release, wait, source });
    onWrite?.();
    const created = await beginning;
    return { created, isWaiting };
  }

  /** Reserves a place in a group, or in its line. */
  async #reserve(
    group: GroupName,
    program: Program,
    reserve = (name: GroupName): Reservation => this.#runs.slots.reserve(name),
  ): Promise<Reservation> {
    if (!this.#recovery) await this.#known.promise; // the executions that the last process left are first
    this.#runs.refuseWhenClosing();
    this.#waiting.keepProgram(group.workflowId, program);
    return reserve(group);
  }

  readonly #wait = (drive: Drive): void => this.#waiting.takeOver(drive);

  async state(id: string): Promise<ExecutionState | undefined> {
    const state = this.#committed(id);
    return state && isTurn(state.execution) ? undefined : state;
  }

  #committed(id: string): StoredState | undefined {
    return this.#runs.get(id)?.committed ?? this.#store.state(id);
  }

  /** Status and epoch of an execution, with the transitions that are being written. */
  #decided(id: string): Pick<ExecutionState, "status" | "epoch" | "last"> | undefined {
    const drive = this.#runs.get(id);
    return drive ? { ...drive.run.decided, last: drive.committed.last } : this.#store.state(id);
  }

  list(filter: ListFilter): Promise<ListPage> {
    return this.#store.list.read(filter);
  }

  isRunning(workflowId: string): boolean {
    const isOne = ({ status, execution }: ExecutionState): boolean =>
      status === "running" && execution.workflowId === workflowId;
    if (this.#runs.all().some(({ committed }) => isOne(committed))) return true;
    return this.#waiting.count(workflowId) > 0 || this.#store.waits.hasResting(workflowId);
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
    if (!state) throw notFound(`Execution ${id} not found`);
    if (state.status !== "running" && state.epoch > afterEpoch && !this.#runs.isUntold(state)) return state;
    if (state.status === "running" && !this.#isDriven(id)) throw this.#runs.toAnswer(stopped(id));
    return this.#runs.waiters.next(id, afterEpoch, signal);
  }

  events(
    id: string,
    afterSeq: number,
    signal: AbortSignal,
    { until }: EventsOptions = {},
  ): AsyncGenerator<StoredEvent | LiveEvent> {
    const readPage = (after: EventCursor): EventPage => this.#store.events(id, after);
    const read = (after: EventCursor): EventPage | Promise<EventPage> =>
      this.#recovery ? readPage(after) : this.#known.promise.then(() => readPage(after));
    const isRunning = (): boolean =>
      this.#runs.get(id)?.committed.status === "running" ||
      this.#waiting.has(id) ||
      (this.#store.state(id)?.status === "running" && this.#isResting(id));
    const isOpen = (): boolean => isRunning() || (until === "end" && this.#committed(id)?.status === "suspended");
    return readEvents({ read, isOpen }, this.#runs.readers.open(id, signal), afterSeq);
  }

  changes(filter: ChangeFilter, signal: AbortSignal): AsyncGenerator<ExecutionChange> {
    return this.#runs.changes.open(filter, signal);
  }
  changedStates(signal: AbortSignal): AsyncGenerator<ChangedState> {
    return this.#runs.changes.openStates(signal);
  }

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const toNext = (position: Position | undefined): Transition => {
      return { at: this.clock.now(), to: "suspended", reason, pending: [], position };
    };
    if (!this.#recovery) await this.#known.promise;
    if (this.#waiting.has(id)) return this.#waiting.suspend(id, toNext);
    const drive = this.#runs.get(id);
    if (drive)
      return isLegal(drive.run.decided, toNext(undefined)) && this.#runs.command(drive, toNext(drive.walk.position()));
    const state = this.#store.state(id);
    if (!state || !isLegal(state, toNext(undefined))) return false;
    return this.#runs.commandUndriven(state, toNext(await this.#lastPosition(id))); // it was not recovered
  }

  resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false> {
    const { branch, ...rest } = how;
    const toNext = (): Transition => ({ at: this.clock.now(), to: "running", ...rest });
    return this.#continue(id, { epoch, branch }, toNext, program);
  }

  retry(id: string, epoch: number, how: Retry, program: Program): Promise<ExecutionState | false> {
    const toNext = (): Transition => ({ at: this.clock.now(), to: "running", isRetry: true, ...how });
    return this.#continue(id, { epoch }, toNext, program);
  }

  /** Makes the transition to running, if it is legal and the epoch is still that which the caller has seen. */
  async #continue(
    id: string,
    { epoch, branch }: Pick<ExecutionState, "epoch"> & Pick<Resume, "branch">,
    toNext: () => Transition,
    program: Program,
    tries = 0,
  ): Promise<ExecutionState | false> {
    this.#runs.refuseWhenClosing();
    if (tries === mostTries) throw busy(`Execution ${id} is busy with events`, 1);
    const isStill = (): boolean => {
      const now = this.#decided(id);
      if (!now || !isLegal(now, toNext())) return false;
      return now.epoch === epoch || (branch !== undefined && this.#isParked(id, branch));
    };
    // Another caller is first once its transition is committed: until then a crash could undo it.
    if (!isStill()) await this.#runs.written();
    if (!isStill()) return false;
    const driven = this.#runs.get(id);
    if (driven) return this.#runs.command(driven, toNext());
    const state = this.#store.state(id)!;
    const group = toGroup(state.execution.workflowId, state.execution.concurrencyKey);
    const { isWaiting, release } = group ? await this.#reserve(group, program) : this.#runs.slots.reserve();
    const drive = await this.#load(state, program, isWaiting ? noSlot : undefined).finally(release);
    if (!isStill()) await this.#runs.written(); // another caller was first, or a cancel
    if (!isStill()) return false;
    if (!(drive instanceof Drive)) throw new ServeError(409, `Workflow changed: ${drive.mismatch}`);
    // An event that the execution does not wait for has let the run go, at the same time.
    if (drive.isReleased) return this.#continue(id, { epoch, branch }, toNext, program, tries + 1);
    // Nothing of it is in flight: if the store cannot be written, the run is forgotten again.
    const wait = isWaiting ? this.#wait : undefined;
    return this.#runs.command(drive, toNext(), { isJustLoaded: true, wait });
  }

  /** Whether a branch waits, by the key of its wake. */
  #isParked(id: string, key: string): boolean {
    const drive = this.#runs.get(id);
    const last = this.#store.state(id)?.last;
    const pending = drive ? drive.walk.parkedBranches() : last?.to === "suspended" ? last.pending : [];
    return pending.some((one) => one.key === key);
  }

  history(id: string): AsyncIterable<readonly HistoryRow[]> {
    return this.#store.history(id);
  }

  async rowText(id: string, row: number): Promise<JsonText | undefined> {
    const number = this.#store.numberOf(id);
    return number === undefined ? undefined : this.#store.text(number, row);
  }

  async cancel(id: string, reason: string): Promise<ExecutionState | false> {
    const cancelled = await this.#cancel(id, reason);
    await this.#cancelChildren(id);
    return cancelled;
  }

  /** Cancels the children of an execution that was cancelled; of all such executions at the start. */
  async #cancelChildren(id?: string): Promise<void> {
    const { logger } = this.#options;
    for (const { id: child, reason } of this.#store.children.left(id))
      await this.cancel(child, reason).catch((error: unknown) =>
        logger.error("A child could not be cancelled: the next start tries again", { executionId: child, error }),
      );
  }

  async #cancel(id: string, reason: string): Promise<ExecutionState | false> {
    if (!this.#recovery) await this.#known.promise;
    if (this.#waiting.has(id)) {
      const made = await this.#waiting.command(id, this.#toCancellation(reason));
      if (made !== undefined) return made;
    }
    // Another transition may be first, such as a suspension because the workflow has changed. The cancel follows on it.
    for (let tries = 0; tries < mostTries; tries++) {
      const drive = this.#runs.get(id);
      const state = drive?.committed ?? this.#store.state(id);
      if (!state) return false;
      const next = this.#toCancellation(reason);
      if (!isLegal(drive?.run.decided ?? state, next)) {
        await this.#runs.written(); // its end is durable before the caller hears of it
        return false;
      }
      const made = await (drive ? this.#runs.command(drive, next) : this.#runs.commandUndriven(state, next));
      if (made) return made;
    }
    throw busy(`Execution ${id} changes too fast to be cancelled`, 1);
  }

  isWritable(): boolean {
    return this.#watch?.isWritable() ?? false;
  }

  async close({ drainMs, beside }: { drainMs: number; beside?: Promise<unknown> }): Promise<void> {
    this.#closing.abort();
    this.#known.resolve();
    this.#stopRetention();
    this.#watch?.stop();
    this.#timers?.close();
    await this.#runs?.close(drainMs, beside);
    // A start that was not marked has not counted the last crash: the next one does.
    if (this.#isStartMarked) attempt(() => this.#store.endProcess()); // a disk that cannot be written makes it look like a crash
    this.#closeStore();
  }

  /** Whether an execution has a run, or will have one. */
  #isDriven(id: string): boolean {
    return this.#runs.get(id) !== undefined || this.#waiting.has(id) || this.#isResting(id);
  }
  /** Whether an execution waits for the end of a retry delay, and has no run. */
  #isResting(id: string): boolean {
    const number = this.#store.numberOf(id);
    return number !== undefined && this.#store.waits.hasTimer(number);
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

/** Without a slot, no step starts. */
const noSlot: Admissible = { admit() {} };
/** The most times that others may be first. */
const mostTries = 100;

/** Turns take no slot. */
const noReservation: Reservation = { isWaiting: false, release() {} };
