import { setTimeout as sleep } from "node:timers/promises";
import { systemClock, type Clock } from "../../core/clock.ts";
import { shuttingDown } from "../../core/error.ts";
import { heapPerByte, quarterOfHeap } from "../../core/heap-weight.ts";
import { newId } from "../../core/id.ts";
import type { Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { JsonText } from "../../core/json.ts";
import type {
  Engine,
  EngineLoad,
  EventsOptions,
  ListFilter,
  ListPage,
  OpenOptions,
} from "../../engine/contract/engine.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { HistoryRow } from "../../engine/contract/history.ts";
import type { LiveEvent, StoredEvent } from "../../engine/events.ts";
import type { ExecutionState } from "../../engine/execution.ts";
import type { OnSettled } from "../../engine/execution-log.ts";
import { Changes } from "../../engine/runs/changes.ts";
import { readEvents } from "../../engine/runs/read-events.ts";
import { Readers, type Reader } from "../../engine/runs/readers.ts";
import { Slots } from "../../engine/runs/slots.ts";
import { Arrivals } from "./arrivals.ts";
import { createCalls, toNames, type ServiceNames } from "./calls.ts";
import { RestateClient } from "./client/client.ts";
import { RestateConversations } from "./conversations/conversations.ts";
import { LocalDrives, type LocalDrive } from "./drive/drives.ts";
import { Interruptions } from "./drive/interruptions.ts";
import { Endpoint } from "./endpoint.ts";
import { LocalPlaces } from "./groups/local-places.ts";
import { listExecutions } from "./list/list.ts";
import { LocalMailboxes } from "./mailbox/local-mailboxes.ts";
import type { RestateSettings } from "./options.ts";
import { Programs } from "./programs.ts";
import { readHistory } from "./reads/history.ts";
import { startedIn } from "./drive/rows.ts";
import { Commands } from "./commands.ts";
import { createServices } from "./services.ts";
import { Replica } from "./replica.ts";
import { loadSdk } from "./sdk.ts";
import { createOpenRecords } from "./records.ts";
import { RestateSchedules } from "./schedules.ts";
import { SettledStates } from "./reads/settled-states.ts";
import { States } from "./reads/states.ts";
import { StoredEvents } from "./reads/stored-events.ts";
import { RestateTurns } from "./turns.ts";
import { RestateUsage } from "./usage/usage.ts";

export interface RestateEngineOptions extends RestateSettings {
  /** The folder of the config. */
  readonly root: string;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  readonly waitingExecutions: number;
  readonly executionBytes: number;
  readonly conversationBytes: number;
  /** Max events of a name and key, up to 1,000. @default 1000 */
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
  readonly #commands: Commands;
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
    this.#commands = new Commands({
      ...shared,
      options,
      slots: this.#slots,
      programs: this.#programs,
      settled: this.#settled,
      changes: this.#changes,
      stored: this.#stored,
      turns: this.#turns,
      closing,
      known,
    });
  }

  async open({ mayServe }: OpenOptions = {}): Promise<void> {
    const sdk = loadSdk(this.#options.root);
    await mayServe?.();
    const { retention } = this.#options;
    const parts = { sdk, names: this.#names, calls: createCalls(sdk), host: this.#replica, retention };
    const services = createServices({ ...parts, turns: this.#turns, conversations: this.conversations });
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

  readonly begin: Engine["begin"] = (...args) => this.#commands.begin(...args);
  readonly fork: Engine["fork"] = (...args) => this.#commands.fork(...args);
  readonly suspend: Engine["suspend"] = (...args) => this.#commands.suspend(...args);
  readonly resume: Engine["resume"] = (...args) => this.#commands.resume(...args);
  readonly retry: Engine["retry"] = (...args) => this.#commands.retry(...args);
  readonly cancel: Engine["cancel"] = (...args) => this.#commands.cancel(...args);
  readonly send: Engine["send"] = (...args) => this.#commands.send(...args);

  async state(id: string): Promise<ExecutionState | undefined> {
    await this.#known.promise;
    return this.#states.state(id);
  }

  async list(filter: ListFilter): Promise<ListPage> {
    await this.#known.promise;
    return listExecutions({ client: this.#client, names: this.#names, states: this.#states }, filter);
  }

  readonly settled: Engine["settled"] = (...args) => this.#settled.next(...args);

  readonly events: Engine["events"] = (id, afterSeq, signal, { until } = {}) => {
    const stop = AbortSignal.any([signal, this.#closing.signal]);
    return this.#read(id, afterSeq, { stop, reader: this.#readers.open(id, stop), until });
  };
  async *#read(
    id: string,
    afterSeq: number,
    { stop, reader, until }: EventsOptions & { readonly stop: AbortSignal; readonly reader: Reader },
  ): AsyncGenerator<StoredEvent | LiveEvent> {
    await this.#known.promise;
    void this.#stored.follow(id);
    const isOpen = (): Promise<boolean> => this.#stored.isOpen(id, stop, until);
    yield* readEvents({ read: (after) => this.#stored.read(id, after, stop), isOpen }, reader, afterSeq);
  }

  readonly changes: Engine["changes"] = (filter, signal) =>
    this.#changes.open(filter, AbortSignal.any([signal, this.#closing.signal]));
  readonly watch: Engine["watch"] = (reader, signal) =>
    this.#changes.watch(reader, AbortSignal.any([signal, this.#closing.signal]));

  async *history(id: string): AsyncGenerator<readonly HistoryRow[]> {
    await this.#known.promise;
    yield* readHistory(this.#states, this.#stored, id);
  }
  async rowText(id: string, row: number): Promise<JsonText | undefined> {
    await this.#known.promise;
    return this.#stored.text(id, row);
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

/** The time in which a server that is closed gives back the turns of its conversations. */
const leaveMs = 3_000;
const reportMs = 2_000;
