import { setTimeout as sleep } from "node:timers/promises";
import { systemClock, type Clock } from "../../core/clock.ts";
import { shuttingDown } from "../../core/error.ts";
import type { JsonText } from "../../core/json.ts";
import type {
  Engine,
  EngineLoad,
  EventsOptions,
  ListFilter,
  ListPage,
  OpenOptions,
} from "../../engine/contract/engine.ts";
import type { HistoryRow } from "../../engine/contract/engine.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { LiveEvent, StoredEvent } from "../../engine/events.ts";
import type { ExecutionState } from "../../engine/execution.ts";
import { readEvents } from "../../engine/runs/readers.ts";
import type { Reader } from "../../engine/runs/readers.ts";
import { toServiceParts } from "./calls.ts";
import { Commands } from "./commands.ts";
import { RestateConversations } from "./conversations/conversations.ts";
import type { LocalDrive } from "./drive/drives.ts";
import { startedIn } from "./drive/rows.ts";
import { Endpoint } from "./endpoint.ts";
import { listExecutions } from "./list/list.ts";
import { Replica, type ReplicaOptions } from "./replica.ts";
import { RestateSchedules } from "./schedules.ts";
import { loadSdk } from "./sdk.ts";
import { RestateTurns } from "./turns.ts";
import { RestateUsage } from "./usage/usage.ts";

/**
 * The engine on a Restate cluster. Any replica answers for any execution; Restate decides which one drives it.
 *
 * - The *register* of an execution, a virtual object, holds status and epoch: `state` reads it, `begin` and the commands are its
 *   exclusive handlers, `settled` an awakeable that it keeps. The end of a wait at its time is a scheduled call of it.
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
  readonly #replica: Replica;
  readonly #turns: RestateTurns;
  readonly #commands: Commands;
  #endpoint: Endpoint | undefined;

  constructor(options: ReplicaOptions) {
    const replica = new Replica(options);
    const { client, closed } = replica;
    this.#replica = replica;
    this.conversations = new RestateConversations({
      client,
      closed: closed.signal,
      maxBytes: options.conversationBytes,
    });
    this.schedules = new RestateSchedules(client);
    this.usage = new RestateUsage(client, options.logger);
    this.#turns = new RestateTurns(replica, this.conversations);
    this.#commands = new Commands(replica, this.#turns);
  }

  async open({ mayServe }: OpenOptions = {}): Promise<void> {
    const { options, client, slots } = this.#replica;
    const sdk = loadSdk(options.root);
    await mayServe?.();
    this.#endpoint = new Endpoint({
      ...toServiceParts(sdk, client.names, options.retention),
      host: this.#replica,
      turns: this.#turns,
      conversations: this.conversations,
    });
    await this.#endpoint.listen();
    slots.open();
  }

  served(): void {}

  /**
   * Without `programOf` this replica runs only executions that were started or resumed on it. Drives of others are refused,
   * and stay with Restate, which offers them to other replicas, and again to this one after a restart. Commands to them take
   * effect at once; their events follow when a replica drives them.
   */
  async recover(programOf?: (workflowId: string) => Program | undefined): Promise<void> {
    this.#replica.programs.open(programOf);
    await this.#endpoint?.register();
    this.#replica.known.resolve();
  }
  isRecovered(): boolean {
    return this.#endpoint?.isRegistered ?? false;
  }
  isWritable(): boolean {
    if (!this.isRecovered()) return false;
    const { client } = this.#replica;
    const { isReachable } = client;
    void client.probe(); // a replica that is not ready gets no requests, and would not notice that Restate is back
    return isReachable;
  }

  readonly begin: Engine["begin"] = (...args) => this.#commands.begin(...args);
  readonly fork: Engine["fork"] = (...args) => this.#commands.fork(...args);
  readonly suspend: Engine["suspend"] = (...args) => this.#commands.suspend(...args);
  readonly resume: Engine["resume"] = (...args) => this.#commands.resume(...args);
  readonly retry: Engine["retry"] = (...args) => this.#commands.retry(...args);
  readonly cancel: Engine["cancel"] = (...args) => this.#commands.cancel(...args);
  readonly send: Engine["send"] = (...args) => this.#commands.send(...args);

  state(id: string): Promise<ExecutionState | undefined> {
    return this.#replica.states.state(id);
  }
  list(filter: ListFilter): Promise<ListPage> {
    return listExecutions(this.#replica, filter);
  }
  readonly settled: Engine["settled"] = (...args) => this.#replica.settled.next(...args);

  readonly events: Engine["events"] = (id, afterSeq, signal, { until } = {}) => {
    const stop = this.#untilClosing(signal);
    return this.#read(id, afterSeq, { stop, reader: this.#replica.readers.open(id, stop), until });
  };
  async *#read(
    id: string,
    afterSeq: number,
    { stop, reader, until }: EventsOptions & { readonly stop: AbortSignal; readonly reader: Reader },
  ): AsyncGenerator<StoredEvent | LiveEvent> {
    const { known, stored } = this.#replica;
    await known.promise;
    void stored.follow(id);
    const isOpen = (): Promise<boolean> => stored.isOpen(id, stop, until);
    yield* readEvents({ read: (after) => stored.read(id, after, stop), isOpen }, reader, afterSeq);
  }

  readonly changes: Engine["changes"] = (filter, signal) =>
    this.#replica.changes.open(filter, this.#untilClosing(signal));
  readonly watch: Engine["watch"] = (reader, signal) => this.#replica.changes.watch(reader, this.#untilClosing(signal));

  history(id: string): AsyncGenerator<readonly HistoryRow[]> {
    return this.#replica.stored.history(id);
  }
  rowText(id: string, row: number): Promise<JsonText | undefined> {
    return this.#replica.stored.text(id, row);
  }
  async startedSteps(id: string): Promise<ReadonlySet<string> | undefined> {
    const { states, stored } = this.#replica;
    const brief = await states.brief(id);
    return brief?.isDriven ? undefined : startedIn(await stored.firstRows(id));
  }

  async load(): Promise<EngineLoad> {
    const { slots, interruptions } = this.#replica;
    return { running: slots.running, queued: slots.queued, drives: interruptions.counts };
  }
  isRunning(workflowId: string): boolean {
    const isOne = ({ status, execution }: LocalDrive): boolean =>
      status === "running" && execution.workflowId === workflowId;
    return this.#replica.drives.all().some(isOne);
  }
  #untilClosing(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, this.#replica.closing.signal]);
  }

  async close({ drainMs, beside }: { drainMs: number; beside?: Promise<unknown> }): Promise<void> {
    const { closing, closed, known, slots, readers, drives, settled, interruptions } = this.#replica;
    closing.abort(shuttingDown());
    known.resolve();
    slots.close();
    readers.closeAll();
    const until = performance.now() + drainMs;
    const isBusy = (): boolean => drives.all().some((drive) => drive.isBusy);
    const idle = async (): Promise<void> => {
      while (isBusy() && performance.now() < until) await sleep(10);
    };
    await Promise.race([Promise.all([idle(), beside]), sleep(drainMs, undefined, { ref: false })]);
    closed.abort(shuttingDown());
    settled.close();
    // Before Restate continues them elsewhere: a shutdown is not a crash.
    const reports = drives.all().map((drive) => interruptions.report(drive));
    await Promise.race([Promise.all(reports), sleep(reportMs, undefined, { ref: false })]);
    for (const drive of drives.all()) drive.release("The server is shutting down");
    await this.usage.close(reportMs);
    await this.conversations.idle(leaveMs);
    await this.#turns.close();
    await this.#endpoint?.close();
  }
}

/** Time limit for a shutdown to give its turns back. */
const leaveMs = 3_000;
const reportMs = 2_000;
