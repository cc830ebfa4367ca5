import type { SentEvent, Sending, Share } from "../../engine/stored/sent-event.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock, type Clock } from "../../core/clock.ts";
import { busy, ServeError, shuttingDown } from "../../core/error.ts";
import { heapPerByte, quarterOfHeap } from "../../core/heap-weight.ts";
import { newId } from "../../core/id.ts";
import type { Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { JsonText } from "../../core/json.ts";
import type {
  BeginOptions,
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
import type { ForkSource } from "../../engine/fork.ts";
import type { HistoryRow } from "../../engine/contract/history.ts";
import { textOf } from "../../engine/runs/journal-row.ts";
import type { LiveEvent, StoredEvent } from "../../engine/events.ts";
import type { Execution, ExecutionState, Position, Transition } from "../../engine/execution.ts";
import { countStart } from "../../engine/runs/count-states.ts";
import type { OnSettled } from "../../engine/execution-log.ts";
import { Changes, type ChangeFilter } from "../../engine/runs/changes.ts";
import { readEvents } from "../../engine/runs/read-events.ts";
import { Readers, type Reader } from "../../engine/runs/readers.ts";
import { Slots } from "../../engine/runs/slots.ts";
import { Arrivals } from "./arrivals.ts";
import { createCalls, toNames, type ServiceNames } from "./calls.ts";
import { RestateClient } from "./client/client.ts";
import { RestateConversations } from "./conversations/conversations.ts";
import { createAnswers } from "./conversations/answers.ts";
import { createConversation } from "./conversations/service.ts";
import { createDriveService } from "./drive/drive-service.ts";
import { LocalDrives, type LocalDrive } from "./drive/drives.ts";
import { Interruptions } from "./drive/interruptions.ts";
import { Endpoint } from "./endpoint.ts";
import { createGroup, toGroupLimits } from "./groups/service.ts";
import { LocalPlaces } from "./groups/local-places.ts";
import { listExecutions } from "./list/list.ts";
import { LocalMailboxes } from "./mailbox/local-mailboxes.ts";
import { toMailboxKey } from "./mailbox/mailbox-key.ts";
import { createMailbox, mostEvents, type SendInput } from "./mailbox/service.ts";
import type { RestateSettings } from "./options.ts";
import { Programs } from "./programs.ts";
import { createRegister } from "./register/register.ts";
import { mostChildren } from "./register/register-children.ts";
import type { Bearing, BeginInput, Copies, MoveInput, MoveResult } from "./register/register-state.ts";
import { toCopies } from "./drive/copies.ts";
import { readHistory } from "./reads/history.ts";
import { startedIn } from "./drive/rows.ts";
import { findDifference } from "./drive/replay-rows.ts";
import { Replica } from "./replica.ts";
import { loadSdk } from "./sdk.ts";
import { createOpenRecords, createRecords } from "./records.ts";
import { createScheduleBook, RestateSchedules } from "./schedules.ts";
import { SettledStates } from "./reads/settled-states.ts";
import { States } from "./reads/states.ts";
import { StoredEvents } from "./reads/stored-events.ts";
import { createTurnService, RestateTurns } from "./turns.ts";
import { createUsage } from "./usage/service.ts";
import { RestateUsage } from "./usage/usage.ts";
import { createWait } from "./reads/wait.ts";

export interface RestateEngineOptions extends RestateSettings {
  /** The folder of the config. */
  readonly root: string;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  readonly waitingExecutions: number;
  readonly executionBytes: number;
  readonly conversationBytes: number;
  /** The most events of a name and key, up to 1,000. @default 1000 */
  readonly storedEvents?: number | undefined;
  readonly logger: Logger;
  readonly metrics?: Metrics | undefined;
  readonly onSettled?: OnSettled | undefined;
}

/**
 * The engine on a Restate cluster. Any replica answers for any execution; Restate decides which one drives it.
 *
 * - The *register* of an execution, a virtual object, holds status and epoch: `state` reads it, `begin` and the commands are its
 *   exclusive handlers, `settled` an awakeable that it keeps. A wait that ends by itself is a scheduled call of it.
 * - Its *drive*, another object, holds the rows: `history`, `rowText`, `startedSteps` and `events` read them.
 * - `list` is SQL over one small state key of each register. `send` is a call of the mailbox of a name and key: there an event
 *   id is unique, and shares are parts of it. `changes`, `isRunning` and `load` are about this replica.
 * - `recover` registers the endpoint, and Restate continues the executions. `close` moves them to other replicas.
 */
export class RestateEngine implements Engine {
  readonly clock: Clock = systemClock;
  readonly conversations: RestateConversations;
  readonly schedules: RestateSchedules;
  readonly usage: RestateUsage;
  readonly #options: RestateEngineOptions;
  readonly #names: ServiceNames;
  readonly #client: RestateClient;
  readonly #states: States;
  readonly #drives = new LocalDrives();
  readonly #arrivals = new Arrivals();
  readonly #readers: Readers;
  readonly #changes = new Changes({ isRepeated: true });
  readonly #settled: SettledStates;
  readonly #slots: Slots;
  readonly #stored: StoredEvents;
  readonly #interruptions: Interruptions;
  readonly #closing = new AbortController();
  /** Aborted when the drain is over: callers get their results until then. */
  readonly #closed = new AbortController();
  /** Resolves after the first registration, or the first failure of it. */
  readonly #known = Promise.withResolvers<void>();
  readonly #programs = new Programs(this.#known.promise);
  readonly #replica: Replica;
  readonly #turns: RestateTurns;
  #endpoint: Endpoint | undefined;

  constructor(options: RestateEngineOptions) {
    const { name, sseBufferBytes, runningExecutions: running, queuedExecutions: queued, executionBytes } = options;
    this.#options = options;
    this.#names = toNames(name);
    this.#client = new RestateClient(options);
    this.#states = new States(this.#client, this.#names);
    this.#readers = new Readers(sseBufferBytes);
    // Its groups are in Restate.
    this.#slots = new Slots({ running, queued, bytes: quarterOfHeap() / heapPerByte });
    const shared = { client: this.#client, states: this.#states, names: this.#names, drives: this.#drives };
    const { signal: closing } = this.#closing;
    const { signal: closed } = this.#closed;
    const { promise: known } = this.#known;
    this.conversations = new RestateConversations({
      ...shared,
      closed,
      known,
      maxBytes: options.conversationBytes,
    });
    this.schedules = new RestateSchedules({ ...shared, known });
    this.usage = new RestateUsage({ ...shared, known, logger: options.logger });
    this.#stored = new StoredEvents({ ...shared, readers: this.#readers, closing, replica: newId() });
    this.#settled = new SettledStates({ ...shared, known, arrivals: this.#arrivals, closed });
    this.#interruptions = new Interruptions(this.#client, this.#names);
    const openRecords = createOpenRecords(this.#client, this.#names);
    this.#turns = new RestateTurns({
      ...shared,
      conversations: this.conversations,
      programs: this.#programs,
      openRecords,
      logger: options.logger,
      closing,
    });
    this.#replica = new Replica({
      executionBytes,
      metrics: options.metrics,
      programs: this.#programs,
      drives: this.#drives,
      arrivals: this.#arrivals,
      slots: this.#slots,
      places: new LocalPlaces({ ...shared, closing }),
      mailboxes: new LocalMailboxes({ ...shared, logger: options.logger }),
      readers: this.#readers,
      changes: this.#changes,
      stored: this.#stored,
      states: this.#states,
      settled: this.#settled,
      interruptions: this.#interruptions,
      closing,
      onSettled: options.onSettled,
      openRecords,
    });
  }

  async open({ mayServe }: OpenOptions = {}): Promise<void> {
    const sdk = loadSdk(this.#options.root);
    await mayServe?.();
    const { retention } = this.#options;
    const parts = { sdk, names: this.#names, calls: createCalls(sdk), host: this.#replica, retention };
    const services = [
      createRegister(parts),
      createDriveService(parts),
      createWait(parts),
      createConversation(parts),
      createGroup(parts),
      createMailbox(parts),
      createScheduleBook(parts),
      createRecords(parts),
      createAnswers(parts),
      createUsage(parts),
      createTurnService({ ...parts, turns: this.#turns, conversations: this.conversations }),
    ];
    this.#endpoint = new Endpoint({ ...this.#options, sdk, services, client: this.#client });
    await this.#endpoint.listen();
    this.#slots.open();
  }

  served(): void {}

  /**
   * Without `programOf` this replica runs only executions that were started or resumed on it. Drives of others are refused,
   * and stay with Restate, which offers them to other replicas, and again to this one after a restart. Commands to them take
   * effect at once; their events follow when a replica drives them.
   */
  async recover(programOf?: (workflowId: string) => Program | undefined): Promise<void> {
    this.#programs.open(programOf);
    await this.#endpoint?.register();
    this.#known.resolve();
  }
  isRecovered(): boolean {
    return this.#endpoint?.isRegistered ?? false;
  }
  isWritable(): boolean {
    if (!this.isRecovered()) return false;
    const { isReachable } = this.#client;
    void this.#client.probe(); // a replica that is not ready gets no requests, which would show that Restate is back
    return isReachable;
  }

  async begin(
    execution: Execution,
    program: Program,
    { isFresh, turn, write = () => Promise.resolve() }: BeginOptions = {},
  ): Promise<{ created: boolean }> {
    if (turn) {
      this.#refuseWhenClosing();
      return this.#turns.begin(execution, program, turn, write);
    }
    const created = await this.#reserve(execution.id, program, () => this.#begin(execution, program, { isFresh }));
    if (created) this.#started(execution);
    return { created };
  }

  async fork(execution: Execution, program: Program, source: ForkSource): Promise<{ created: boolean }> {
    const readText = (row: number): Promise<JsonText | undefined> => this.rowText(source.from, row);
    const copies = source.copied.length > 0 ? await toCopies(execution, source, readText) : undefined;
    const created = await this.#reserve(execution.id, program, () => this.#begin(execution, program, { copies }));
    if (created) this.#started(execution);
    return { created };
  }

  #started(execution: Execution): void {
    countStart(this.#options.metrics, execution.workflowId);
    this.#changes.publish({ execution, status: "running", epoch: 0 });
  }

  /** Starts or continues an execution. A drive that comes here finds the program and a slot. */
  async #reserve<T>(id: string, program: Program, act: () => Promise<T>): Promise<T> {
    this.#refuseWhenClosing();
    const { release } = this.#slots.reserve();
    const forget = this.#expect(id, program);
    try {
      const done = await act();
      if (!done) forget();
      return done;
    } catch (error) {
      forget();
      throw error;
    } finally {
      release();
    }
  }

  async #begin(
    execution: Execution,
    program: Program,
    { isFresh = false, copies }: { isFresh?: boolean | undefined; copies?: Copies | undefined },
  ): Promise<boolean> {
    const { id } = execution;
    const limits = toGroupLimits(program, this.#options);
    if (!isFresh && (await this.#states.solo.has(id))) return false;
    const failsOnCrash = program.recovery === "fail";
    const input: BeginInput = { execution, token: newId(), failsOnCrash, copies, limits };
    const { parent } = execution;
    const begun = parent?.cancels ? await this.#bear(parent.id, input) : await this.#write<Bearing>(id, "begin", input);
    if (begun === "full") throw tooManyWait();
    if (begun === "many")
      throw new ServeError(400, `Execution ${parent?.id} has ${mostChildren} children with cancelWith`);
    if (begun === "cancelled" || begun === "missing")
      throw new ServeError(409, `Execution ${parent?.id} was cancelled`);
    return begun;
  }
  /** Starts a child that is cancelled with its parent. */
  async #bear(parentId: string, input: BeginInput): Promise<Bearing> {
    const bear = (): Promise<Bearing> => this.#write(parentId, "bear", input);
    const begun = await bear();
    if (begun !== "missing") return begun;
    await this.#states.solo.adopt(parentId);
    return bear();
  }

  /** Keeps the program for a drive that comes here, and its result for the caller. Returns the undoing. */
  #expect(id: string, program: Program): () => void {
    const forget = this.#programs.expect(id, program);
    this.#settled.expect(id);
    return () => {
      forget();
      this.#settled.forget(id);
    };
  }

  async state(id: string): Promise<ExecutionState | undefined> {
    await this.#known.promise;
    return this.#states.state(id);
  }

  async list(filter: ListFilter): Promise<ListPage> {
    await this.#known.promise;
    return listExecutions({ client: this.#client, names: this.#names, states: this.#states }, filter);
  }

  settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    return this.#settled.next(id, afterEpoch, signal);
  }

  events(
    id: string,
    afterSeq: number,
    signal: AbortSignal,
    options?: EventsOptions,
  ): AsyncGenerator<StoredEvent | LiveEvent> {
    const stop = AbortSignal.any([signal, this.#closing.signal]);
    return this.#read(id, afterSeq, stop, this.#readers.open(id, stop), options);
  }

  async *#read(
    id: string,
    afterSeq: number,
    stop: AbortSignal,
    reader: Reader,
    { until }: EventsOptions = {},
  ): AsyncGenerator<StoredEvent | LiveEvent> {
    await this.#known.promise;
    void this.#stored.follow(id);
    const isOpen = (): Promise<boolean> => this.#stored.isOpen(id, stop, until);
    yield* readEvents({ read: (after) => this.#stored.read(id, after, stop), isOpen }, reader, afterSeq);
  }

  changes(filter: ChangeFilter, signal: AbortSignal): AsyncGenerator<ExecutionChange> {
    return this.#changes.open(filter, AbortSignal.any([signal, this.#closing.signal]));
  }
  changedStates(signal: AbortSignal): AsyncGenerator<ChangedState> {
    return this.#changes.openStates(AbortSignal.any([signal, this.#closing.signal]));
  }

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const position = this.#drives.get(id)?.position ?? (await this.#positionElsewhere(id));
    return this.#move(id, { next: { at: Date.now(), to: "suspended", reason, pending: [], position } });
  }
  async #positionElsewhere(id: string): Promise<Position | undefined> {
    await this.#known.promise;
    return this.#stored.position(id);
  }

  resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false> {
    const { branch, ...rest } = how;
    return this.#continue(id, { epoch, branch }, { at: Date.now(), to: "running", ...rest }, program);
  }
  retry(id: string, epoch: number, how: Retry, program: Program): Promise<ExecutionState | false> {
    return this.#continue(id, { epoch }, { at: Date.now(), to: "running", isRetry: true, ...how }, program);
  }

  #continue(
    id: string,
    expected: Pick<MoveInput, "epoch" | "branch">,
    next: Transition,
    program: Program,
  ): Promise<ExecutionState | false> {
    return this.#reserve(id, program, async () => {
      const difference = await this.#findDifference(id, expected, program);
      if (difference !== undefined) throw new ServeError(409, `Workflow changed: ${difference}`);
      const limits = toGroupLimits(program, this.#options);
      return this.#move(id, { next, ...expected, steps: program.steps, limits });
    });
  }

  /** The first difference between the rows of an execution and the code. One that is driven continues on its own. */
  async #findDifference(
    id: string,
    { epoch, branch }: Pick<MoveInput, "epoch" | "branch">,
    program: Program,
  ): Promise<string | undefined> {
    const [state, brief, rows] = await Promise.all([this.state(id), this.#states.brief(id), this.#stored.allRows(id)]);
    if (!state || state.status === "running" || brief?.isDriven !== false) return undefined;
    if (state.epoch !== epoch && branch === undefined) return undefined; // another change was first
    // Rows that the last drive has not stored yet are compared by the next one.
    if (rows.at(-1)?.epoch !== state.epoch) return undefined;
    return findDifference(state.execution, rows, [], program);
  }

  async send(event: SentEvent, share: Share): Promise<Sending> {
    this.#refuseWhenClosing();
    await this.#known.promise;
    const { storedEvents = mostEvents } = this.#options;
    const input: SendInput = { event, most: Math.min(mostEvents, storedEvents), share };
    // A call that is sent twice is known by the id of the event.
    const sending = await this.#client.write<Sending | "full">(this.#names.mailbox, toMailboxKey(event), "send", input);
    if (sending === "full") throw busy("Too many events are stored", 60);
    return sending;
  }

  cancel(id: string, reason: string): Promise<ExecutionState | false> {
    return this.#move(id, { next: { at: Date.now(), to: "error", cancellation: { reason } } });
  }

  async #move(id: string, change: Omit<MoveInput, "token">): Promise<ExecutionState | false> {
    const input: MoveInput = { ...change, token: newId() };
    const move = (): Promise<MoveResult> => this.#write(id, "move", input);
    let moved = await move();
    if (moved.isMissing) {
      await this.#states.solo.adopt(id);
      moved = await move();
    }
    const { state, isBusy, isFull } = moved;
    if (isFull) throw tooManyWait();
    if (isBusy) throw busy(`Execution ${id} has too many changes that wait`, 1);
    if (!state) return false;
    this.#settled.notify(state);
    this.#changes.publish(state);
    if (state.status !== "running") this.#options.onSettled?.(state);
    return state;
  }

  async #write<T>(id: string, method: string, input: unknown): Promise<T> {
    await this.#known.promise;
    return this.#client.write(this.#names.register, id, method, input);
  }

  async *history(id: string): AsyncGenerator<readonly HistoryRow[]> {
    await this.#known.promise;
    yield* readHistory(this.#states, this.#stored, id);
  }
  async rowText(id: string, row: number): Promise<JsonText | undefined> {
    await this.#known.promise;
    const stored = await this.#stored.row(id, row);
    return stored?.row && textOf(stored.row);
  }

  async startedSteps(id: string): Promise<ReadonlySet<string> | undefined> {
    const brief = await this.#states.brief(id);
    return brief?.isDriven ? undefined : startedIn(await this.#stored.allRows(id));
  }

  async load(): Promise<EngineLoad> {
    const { running, queued } = this.#slots;
    return { running, queued, drives: this.#interruptions.counts };
  }
  isRunning(workflowId: string): boolean {
    const isOne = ({ status, execution }: LocalDrive): boolean =>
      status === "running" && execution.workflowId === workflowId;
    return this.#drives.all().some(isOne);
  }

  #refuseWhenClosing(): void {
    if (this.#closing.signal.aborted) throw shuttingDown();
  }

  async close({ drainMs, beside }: { drainMs: number; beside?: Promise<unknown> }): Promise<void> {
    this.#closing.abort(shuttingDown());
    this.#known.resolve();
    this.#slots.close();
    this.#readers.closeAll();
    const until = performance.now() + drainMs;
    const isBusy = (): boolean => this.#drives.all().some((drive) => drive.isBusy);
    const idle = async (): Promise<void> => {
      while (isBusy() && performance.now() < until) await sleep(10);
    };
    await Promise.race([Promise.all([idle(), beside]), sleep(drainMs, undefined, { ref: false })]);
    this.#closed.abort(shuttingDown());
    this.#settled.close();
    // Before Restate continues them elsewhere: a shutdown is not a crash.
    const reports = this.#drives.all().map((drive) => this.#interruptions.report(drive));
    await Promise.race([Promise.all(reports), sleep(reportMs, undefined, { ref: false })]);
    for (const drive of this.#drives.all()) drive.release("The server is shutting down");
    await this.usage.close(reportMs);
    await this.conversations.idle(leaveMs);
    await this.#turns.close();
    await this.#endpoint?.close();
  }
}

const tooManyWait = (): ServeError => busy("Too many executions are waiting", 1);

/** The time in which a server that is closed gives back the turns of its conversations. */
const leaveMs = 3_000;
const reportMs = 2_000;
