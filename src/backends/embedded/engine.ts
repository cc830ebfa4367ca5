import { setImmediate as nextTurn } from "node:timers/promises";
import { systemClock, type Clock } from "../../core/clock.ts";
import type { JsonText } from "../../core/json.ts";
import { attempt } from "../../core/attempt.ts";
import type { Engine, EngineLoad, OpenOptions } from "../../engine/contract/engine.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { ExecutionState } from "../../engine/execution.ts";
import { EmbeddedConversations } from "./conversations/conversations.ts";
import { EmbeddedSchedules } from "./schedules.ts";
import { EmbeddedUsage } from "./usage.ts";
import { Drives, type DrivesOptions } from "./drives.ts";
import { recordHolder } from "./file/holder.ts";
import type { Retention } from "../../engine/retention.ts";
import { Recovery } from "./recovery.ts";
import { WaitingExecutions } from "./waiting-executions.ts";
import { startRetention } from "./retention.ts";
import { Space, storeFull } from "./file/space.ts";
import { toStoreError } from "./file/sqlite-error.ts";
import { Store } from "./store/store.ts";
import { startWatch, type Watch } from "./file/watch.ts";
import type { ScheduleStore } from "../../engine/contract/schedules.ts";
import { Commands } from "./commands.ts";
import { openFile } from "./file/open-file.ts";
import type { EngineParts } from "./engine-parts.ts";
import { Reads } from "./reads.ts";
import { Mailbox } from "./waits/mailbox.ts";
import { Sleepers } from "./waits/sleepers.ts";
import { Timers } from "./waits/timers.ts";
import { agentOf, isTurn } from "../../engine/turn-execution.ts";

export interface EmbeddedOptions extends Omit<DrivesOptions, "store" | "limitOf"> {
  readonly path: string;
  readonly durability: "normal" | "full";
  readonly retention: Retention;
  /** Max events that are kept. @default 100000 */
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
  #drives!: Drives;
  #waiting!: WaitingExecutions;
  #timers: Timers | undefined;
  #mailbox!: Mailbox;
  #parts!: EngineParts;
  #reads!: Reads;
  #commands!: Commands;
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
    writer: this.#drives.writer,
  }));
  readonly usage: EmbeddedUsage;

  constructor(options: EmbeddedOptions) {
    this.#options = options;
    this.clock = options.clock ?? systemClock;
    this.usage = new EmbeddedUsage(() => ({ usage: this.#store.usage, writer: this.#drives.writer }), options.logger);
    const dropTurn = (id: string): void => this.#dropTurn(id);
    const flushUsage = (): void => void this.usage.flush();
    const file = () => ({ store: this.#store, writer: this.#drives.writer, space: this.#space, dropTurn, flushUsage });
    this.conversations = new EmbeddedConversations(file, {
      maxBytes: options.conversationBytes,
      clock: this.clock,
      known: this.#whenKnown,
      loaded: () => this.#waiting.loaded(),
    });
  }

  async open({ mayServe, onWait }: OpenOptions = {}): Promise<void> {
    const { path, retention } = this.#options;
    const { signal } = this.#closing;
    let refusal: unknown; // of `mayServe`, which is not about the store
    try {
      signal.throwIfAborted();
      this.#store = await openFile({
        ...this.#options,
        signal,
        onWaiting: onWait,
        onLocked: (unlock) => (this.#unlock = unlock),
      });
      await mayServe?.().catch((error: unknown) => {
        refusal = error;
        throw error;
      });
      signal.throwIfAborted(); // it may have been closed meanwhile
      this.#countCrashes();
      this.#space = new Space({ ...this.#options, hasBytes: (count) => this.#store.hasBytes(count) });
      this.#openParts();
    } catch (error) {
      this.#closeStore();
      throw refusal ?? toStoreError(path, error);
    }
    if (signal.aborted) return;
    this.#watch = startWatch(this.#store, this.#drives.writer);
    const isDriven = (id: string): boolean => this.#drives.get(id) !== undefined;
    this.#stopRetention = startRetention(retention, {
      store: this.#store,
      writer: this.#drives.writer,
      clock: this.clock,
      isDriven,
      isBusy: (key) => this.conversations.isBusy(key),
      onRemoved: (id) => this.#drives.publisher.readers.close(id),
    });
  }

  #openParts(): void {
    const { logger } = this.#options;
    const store = this.#store;
    const limitOf = (workflowId: string): number => this.#waiting.limitOf(workflowId);
    const drives = (this.#drives = new Drives({ ...this.#options, store, limitOf }));
    const waiting = (this.#waiting = new WaitingExecutions({
      store,
      drives,
      logger,
      load: (state, program, slot) => this.#reads.load(state, program, slot),
      lastPosition: (id) => this.#reads.lastPosition(id),
    }));
    const parts: EngineParts = { store, drives, waiting, clock: this.clock, logger, known: this.#whenKnown };
    this.#parts = parts;
    this.#reads = new Reads(parts);
    this.#commands = new Commands({ ...parts, reads: this.#reads, space: this.#space });
    const sleepers = new Sleepers(parts);
    const timers = (this.#timers = new Timers({ ...parts, sleepers }));
    drives.publisher.onTurnEnd = (id) => this.conversations.giveUp(id);
    drives.publisher.onTimer = () => timers.added();
    drives.onClosing = () => void this.usage.flush();
    const { storedEvents = 100_000 } = this.#options;
    const mailbox = (this.#mailbox = new Mailbox({ ...parts, sleepers, storedEvents }));
    drives.onWait = (drive) => mailbox.onWait(drive);
    drives.publisher.mayContinue = (drive) => mailbox.mayContinue(drive);
    drives.onGone = (number) => mailbox.onGone(number);
    drives.findEvents = (drive) => mailbox.find(drive);
  }
  readonly #whenKnown = (): Promise<void> | undefined => (this.#recovery ? undefined : this.#known.promise);

  readonly send: Engine["send"] = async (event, share) => {
    // A repeated event is answered as stored.
    if (this.#space.isFull && !this.#store.sentEvents.compare(event)) throw storeFull("nothing was sent");
    return this.#mailbox.send(event, share);
  };

  /** A disk that is full or read-only does not prevent the start: everything can still be read. */
  #countCrashes(): void {
    try {
      this.#store.transaction(() => this.#store.processes.start());
      this.#isStartMarked = true;
    } catch (error) {
      this.#options.logger.warn("The store cannot be written: an earlier crash is not counted", { error });
    }
  }

  served(url: string): void {
    const { path } = this.#options;
    if (path !== ":memory:" && !this.#closing.signal.aborted) recordHolder(path, url);
  }

  async recover(programOf?: (workflowId: string) => Program | undefined): Promise<void> {
    const recovery = new Recovery({ ...this.#parts, keepPlace: (id) => this.#keepPlace(id) });
    // A crash of this process would interrupt no execution.
    if (!programOf && this.#isStartMarked) attempt(() => this.#store.processes.end());
    try {
      if (programOf) await recovery.find();
      if (programOf)
        for (const { number, ...group } of this.#store.waits.places()) this.#drives.slots.hold(number, group);
      // They are queued before requests that have waited for them continue.
      const starting = recovery.start(programOf);
      this.#setKnown(recovery);
      if (programOf && !this.#closing.signal.aborted) {
        this.#timers?.open();
        this.#mailbox.open();
      }
      await starting;
      if (programOf) await this.#commands.cancelChildren();
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
    const drive = this.#drives.get(id);
    if (drive) this.#drives.forget(drive);
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

  readonly begin: Engine["begin"] = (...args) => this.#commands.begin(...args);
  readonly fork: Engine["fork"] = (...args) => this.#commands.fork(...args);
  readonly suspend: Engine["suspend"] = (...args) => this.#commands.suspend(...args);
  readonly resume: Engine["resume"] = (...args) => this.#commands.resume(...args);
  readonly retry: Engine["retry"] = (...args) => this.#commands.retry(...args);
  readonly cancel: Engine["cancel"] = (...args) => this.#commands.cancel(...args);
  readonly isRunning: Engine["isRunning"] = (...args) => this.#reads.isRunning(...args);
  readonly startedSteps: Engine["startedSteps"] = (...args) => this.#reads.startedSteps(...args);
  readonly settled: Engine["settled"] = (...args) => this.#reads.settled(...args);
  readonly events: Engine["events"] = (...args) => this.#reads.events(...args);

  async state(id: string): Promise<ExecutionState | undefined> {
    const state = this.#reads.committed(id);
    return state && isTurn(state.execution) ? undefined : state;
  }

  readonly list: Engine["list"] = (filter) => this.#store.list.read(filter);
  async load(workflowIds: Iterable<string>): Promise<EngineLoad> {
    const suspended = new Map<string, number>();
    for (const id of workflowIds) {
      await nextTurn(); // each count takes up to some milliseconds
      if (!this.#closing.signal.aborted) suspended.set(id, this.#store.countSuspended(id));
    }
    const { running, queued } = this.#drives.slots;
    return { running, queued, suspended };
  }

  readonly changes: Engine["changes"] = (...args) => this.#drives.publisher.changes.open(...args);
  readonly watch: Engine["watch"] = (...args) => this.#drives.publisher.changes.watch(...args);
  readonly history: Engine["history"] = (id) => this.#store.journals.history(id);

  async rowText(id: string, row: number): Promise<JsonText | undefined> {
    const number = this.#store.journals.numberOf(id);
    return number === undefined ? undefined : this.#store.journals.text(number, row);
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
    await this.#drives?.close(drainMs, beside);
    // A start that was not marked has not counted the last crash: the next one does.
    if (this.#isStartMarked) attempt(() => this.#store.processes.end()); // a disk that cannot be written makes it look like a crash
    this.#closeStore();
  }

  #closeStore(): void {
    this.#store?.close();
    this.#unlock();
    this.#unlock = () => {};
  }
}
