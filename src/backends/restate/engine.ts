import { setTimeout as sleep } from "node:timers/promises";
import { systemClock, type Clock } from "../../core/clock.ts";
import { busy, ServeError, shuttingDown } from "../../core/error.ts";
import { heapPerByte, quarterOfHeap } from "../../core/heap-weight.ts";
import { isOwnId, newId } from "../../core/id.ts";
import type { Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Engine, EngineLoad, ListFilter, ListPage, OpenOptions, Program, Resume } from "../../engine/backend.ts";
import type { LiveEvent, StoredEvent } from "../../engine/events.ts";
import type { Execution, ExecutionState, Position, Transition } from "../../engine/execution.ts";
import { countStart } from "../../engine/runs/count-states.ts";
import type { OnSettled } from "../../engine/execution-log.ts";
import { readEvents } from "../../engine/runs/read-events.ts";
import { Readers, type Reader } from "../../engine/runs/readers.ts";
import { Slots } from "../../engine/runs/slots.ts";
import { Arrivals } from "./arrivals.ts";
import { createCalls, toNames, type ServiceNames } from "./calls.ts";
import { RestateClient } from "./client/client.ts";
import { RestateConversations } from "./conversations/conversations.ts";
import { createConversation } from "./conversations/service.ts";
import { createDriveService } from "./drive/drive-service.ts";
import { LocalDrives, type LocalDrive } from "./drive/drives.ts";
import { Interruptions } from "./drive/interruptions.ts";
import { Endpoint } from "./endpoint.ts";
import { listExecutions } from "./list.ts";
import type { RestateSettings } from "./options.ts";
import { Programs } from "./programs.ts";
import { createRegister } from "./register/register.ts";
import type { BeginInput, DriveInput, MoveInput, MoveResult } from "./register/register-state.ts";
import { startedIn } from "./drive/rows.ts";
import { findDifference } from "./drive/replay-rows.ts";
import { Replica } from "./replica.ts";
import { loadSdk } from "./sdk.ts";
import { SettledStates } from "./settled-states.ts";
import { States } from "./states.ts";
import { StoredEvents } from "./stored-events.ts";
import { createWait } from "./wait.ts";

export interface RestateEngineOptions extends RestateSettings {
  /** The folder of the config. */
  readonly root: string;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  readonly executionBytes: number;
  readonly logger: Logger;
  readonly metrics?: Metrics | undefined;
  readonly onSettled?: OnSettled | undefined;
}

/** The engine on a Restate cluster. Any replica answers for any execution; Restate decides which one drives it. */
export class RestateEngine implements Engine {
  readonly clock: Clock = systemClock;
  readonly conversations: RestateConversations;
  readonly #options: RestateEngineOptions;
  readonly #names: ServiceNames;
  readonly #client: RestateClient;
  readonly #states: States;
  readonly #drives = new LocalDrives();
  readonly #arrivals = new Arrivals();
  readonly #readers: Readers;
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
  #endpoint: Endpoint | undefined;

  constructor(options: RestateEngineOptions) {
    const { name, sseBufferBytes, runningExecutions: running, queuedExecutions: queued, executionBytes } = options;
    this.#options = options;
    this.#names = toNames(name);
    this.#client = new RestateClient(options);
    this.#states = new States(this.#client, this.#names);
    this.#readers = new Readers(sseBufferBytes);
    this.#slots = new Slots({ running, queued, bytes: quarterOfHeap() / heapPerByte });
    const shared = { client: this.#client, states: this.#states, names: this.#names, drives: this.#drives };
    const { signal: closing } = this.#closing;
    const { signal: closed } = this.#closed;
    const { promise: known } = this.#known;
    this.conversations = new RestateConversations({ ...shared, closed, known });
    this.#stored = new StoredEvents({ ...shared, readers: this.#readers, closing, replica: newId() });
    this.#settled = new SettledStates({ ...shared, known, arrivals: this.#arrivals, closed });
    this.#interruptions = new Interruptions(this.#client, this.#names);
    this.#replica = new Replica({
      executionBytes,
      metrics: options.metrics,
      programs: this.#programs,
      drives: this.#drives,
      arrivals: this.#arrivals,
      slots: this.#slots,
      readers: this.#readers,
      stored: this.#stored,
      states: this.#states,
      settled: this.#settled,
      interruptions: this.#interruptions,
      closing,
      onSettled: options.onSettled,
    });
  }

  async open({ mayServe }: OpenOptions = {}): Promise<void> {
    const sdk = loadSdk(this.#options.root);
    await mayServe?.();
    const { retention } = this.#options;
    const parts = { sdk, names: this.#names, calls: createCalls(sdk), host: this.#replica, retention };
    const services = [createRegister(parts), createDriveService(parts), createWait(parts), createConversation(parts)];
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
    return this.isRecovered() && this.#client.isReachable;
  }

  async begin(execution: Execution, program: Program, id?: "fresh" | "awaited"): Promise<{ created: boolean }> {
    this.#refuseWhenClosing();
    const release = this.#slots.reserve();
    const forget = this.#expect(execution.id, program);
    try {
      // A workflow that fails after a crash keeps its register from the start.
      const isSolo = id === "awaited" && program.recovery !== "fail";
      const created = isSolo ? await this.#beginSolo(execution) : await this.#begin(execution, program, id === "fresh");
      if (created) countStart(this.#options.metrics, execution.workflowId);
      else forget();
      return { created };
    } catch (error) {
      forget();
      throw error;
    } finally {
      release();
    }
  }

  async #begin(execution: Execution, program: Program, isFresh: boolean): Promise<boolean> {
    const { id } = execution;
    if (!isFresh && isOwnId(id) && (await this.#states.solo(id))) return false;
    const input: BeginInput = { execution, token: newId(), failsOnCrash: program.recovery === "fail" };
    return this.#write<boolean>(id, "begin", input);
  }
  async #beginSolo(execution: Execution): Promise<true> {
    const input: DriveInput = { execution, isNew: true, isSolo: true, epoch: 0, commands: [] };
    await this.#known.promise;
    this.#settled.started(execution.id, await this.#client.send(this.#names.drive, execution.id, "run", input));
    return true;
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
    return listExecutions(this.#client, this.#names, filter);
  }

  settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    return this.#settled.next(id, afterEpoch, signal);
  }

  events(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<StoredEvent | LiveEvent> {
    const stop = AbortSignal.any([signal, this.#closing.signal]);
    return this.#read(id, afterSeq, stop, this.#readers.open(id, stop));
  }

  async *#read(
    id: string,
    afterSeq: number,
    stop: AbortSignal,
    reader: Reader,
  ): AsyncGenerator<StoredEvent | LiveEvent> {
    await this.#known.promise;
    void this.#stored.follow(id);
    const isRunning = (): Promise<boolean> => this.#stored.isRunning(id, stop);
    yield* readEvents({ read: (after) => this.#stored.read(id, after, stop), isRunning }, reader, afterSeq);
  }

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const position = this.#drives.get(id)?.position ?? (await this.#positionElsewhere(id));
    return this.#move(id, { next: { at: Date.now(), to: "suspended", reason, pending: [], position } });
  }
  async #positionElsewhere(id: string): Promise<Position | undefined> {
    await this.#known.promise;
    return this.#stored.position(id);
  }

  async resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false> {
    this.#refuseWhenClosing();
    const release = this.#slots.reserve();
    const forget = this.#expect(id, program);
    try {
      const difference = await this.#findDifference(id, epoch, program);
      if (difference !== undefined) throw new ServeError(409, `Workflow changed: ${difference}`);
      const next: Transition = { at: Date.now(), to: "running", ...how };
      const resumed = await this.#move(id, { next, epoch, steps: program.steps });
      if (!resumed) forget();
      return resumed;
    } catch (error) {
      forget();
      throw error;
    } finally {
      release();
    }
  }

  /** The first difference between the rows of a suspended execution and the code. One that is driven continues on its own. */
  async #findDifference(id: string, epoch: number, program: Program): Promise<string | undefined> {
    const [state, brief, rows] = await Promise.all([this.state(id), this.#states.brief(id), this.#stored.allRows(id)]);
    const isSuspended = state?.status === "suspended" && state.epoch === epoch && brief?.isDriven === false;
    // Rows that the last drive has not stored yet are compared by the next one.
    if (!isSuspended || rows.at(-1)?.epoch !== epoch) return undefined;
    return findDifference(state.execution, rows, [], program);
  }

  cancel(id: string, reason: string): Promise<ExecutionState | false> {
    return this.#move(id, { next: { at: Date.now(), to: "error", cancellation: { reason } } });
  }

  async #move(id: string, change: Omit<MoveInput, "token">): Promise<ExecutionState | false> {
    const input: MoveInput = { ...change, token: newId() };
    const move = (): Promise<MoveResult> => this.#write(id, "move", input);
    let moved = await move();
    if (moved.isMissing && (await this.#states.summon(id))) moved = await move();
    const { state, isBusy } = moved;
    if (isBusy) throw busy(`Execution ${id} has too many changes that wait`, 1);
    if (!state) return false;
    this.#settled.notify(state);
    if (state.status !== "running") this.#options.onSettled?.(state);
    return state;
  }

  async #write<T>(id: string, method: string, input: unknown): Promise<T> {
    await this.#known.promise;
    return this.#client.write(this.#names.register, id, method, input);
  }

  async startedSteps(id: string): Promise<ReadonlySet<string> | undefined> {
    const brief = await this.#states.brief(id);
    return brief?.isDriven ? undefined : startedIn(await this.#stored.allRows(id));
  }

  async load(): Promise<EngineLoad> {
    const { running, queued } = this.#slots;
    return { running, queued };
  }
  running(workflowId: string): number {
    const isOne = ({ status, execution }: LocalDrive): boolean =>
      status === "running" && execution.workflowId === workflowId;
    return this.#drives.all().filter(isOne).length;
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
    await this.conversations.idle(leaveMs);
    await this.#endpoint?.close();
  }
}

/** The time in which a server that is closed gives back the turns of its conversations. */
const leaveMs = 3_000;
const reportMs = 2_000;
