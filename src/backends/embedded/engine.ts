import { dirname } from "node:path";
import { ServeError } from "../../core/error.ts";
import { withIds } from "../../core/log.ts";
import { findMismatch, hasSameSteps } from "../../engine/compare-steps.ts";
import type { Conversations } from "../../engine/conversations.ts";
import type { Engine, ListFilter, Program, Resume } from "../../engine/backend.ts";
import type { Execution, ExecutionState, Position, Transition } from "../../engine/execution.ts";
import type { StoredEvent, LiveEvent } from "../../engine/events.ts";
import { EmbeddedConversations } from "./conversations.ts";
import { prepareFolder } from "./folder.ts";
import { Runs, stopped, type EmbeddedRun, type RunsOptions } from "./runs.ts";
import { lock, whenFree, type WaitOptions } from "./lock.ts";
import { readEvents, type EventCursor, type EventPage } from "../../engine/runs/read-events.ts";
import { Run } from "../../engine/runs/run.ts";
import { startRetention } from "./retention.ts";
import { toStoreError } from "./sqlite-error.ts";
import { Store, type StoredState } from "./store.ts";

export interface EmbeddedOptions extends Omit<RunsOptions, "store"> {
  readonly path: string;
  readonly durability: "normal" | "full";
  readonly retentionMs: number | undefined;
}

/** The engine on one SQLite file. This process is its only writer. */
export class EmbeddedEngine implements Engine {
  readonly #options: EmbeddedOptions;
  // Set by `open`, which comes before any other call.
  #store!: Store;
  #runs!: Runs;
  #isRecovered = false;
  #unlock = (): void => {};
  #stopRetention = (): void => {};
  readonly #closing = new AbortController();
  readonly conversations: Conversations = new EmbeddedConversations(() => ({
    messages: this.#store.messages,
    writer: this.#runs.writer,
  }));

  constructor(options: EmbeddedOptions) {
    this.#options = options;
  }

  async open(programOf: (workflowId: string) => Program | undefined, mayRun?: () => Promise<unknown>): Promise<void> {
    const { path, retentionMs } = this.#options;
    const { signal } = this.#closing;
    let refusal: unknown; // of `mayRun`, which is not about the store
    try {
      signal.throwIfAborted();
      await this.#openStore();
      await mayRun?.().catch((error: unknown) => {
        refusal = error;
        throw error;
      });
      signal.throwIfAborted(); // it may have been closed meanwhile
      this.#runs = new Runs({ ...this.#options, store: this.#store });
      await this.#recover(programOf);
      this.#isRecovered = true;
      this.#runs.slots.open(); // no step runs before everything is loaded
    } catch (error) {
      await this.#runs?.close(0);
      this.#closeStore();
      throw refusal ?? toStoreError(path, error);
    }
    if (retentionMs !== undefined && !signal.aborted)
      this.#stopRetention = startRetention(this.#store, this.#runs.writer, retentionMs);
  }

  async #openStore(): Promise<void> {
    const { path, durability, logger } = this.#options;
    const onWait = (): void => logger.info("Another process is using the store: waiting until it is free");
    const waiting: WaitOptions = { waitMs: 15_000, onWait, signal: this.#closing.signal };
    if (path !== ":memory:") {
      prepareFolder(dirname(path));
      this.#unlock = await whenFree(() => lock(path), waiting);
    }
    this.#store = await whenFree(() => new Store(path, durability), waiting);
  }

  /** Continues executions that were running when the process ended, in the order of their start. */
  async #recover(programOf: (workflowId: string) => Program | undefined): Promise<void> {
    const transitions: Promise<unknown>[] = [];
    for (const state of this.#store.running()) {
      const next = await this.#tryToContinue(state, programOf(state.execution.workflowId));
      if (!next) continue;
      const made = this.#runs.commandUndriven(state, next);
      made.catch(() => {}); // it may fail before all are awaited
      transitions.push(made);
    }
    await Promise.all(transitions);
  }

  /** Loads an execution. Returns the transition to make instead, when its steps have changed or `recovery` is `fail`. */
  async #tryToContinue(state: StoredState, program: Program | undefined): Promise<Transition | undefined> {
    const at = Date.now();
    const { id, workflowId } = state.execution;
    if (program?.recovery === "fail") return { at, to: "error", error: { message: interrupted, shown: true } };
    const loaded = program ? await this.#load(state, program) : { mismatch: `workflow ${workflowId} no longer exists` };
    if (loaded instanceof Run) return undefined;
    const reason = `Workflow changed: ${loaded.mismatch}`;
    withIds(this.#options.logger, { executionId: id, workflowId }).warn("An execution cannot continue", { reason });
    return { at, to: "suspended", reason, pending: [], position: await this.#lastPosition(id) };
  }

  /** Replays an execution and registers its run; returns the first mismatch when it does not fit the program. */
  async #load(state: StoredState, program: Program): Promise<EmbeddedRun | { mismatch: string }> {
    const { id, steps } = state.execution;
    const isSame = hasSameSteps(steps, program.steps);
    const mismatch = isSame ? undefined : findMismatch(steps, program.steps, await this.#startedSteps(id));
    return mismatch === undefined ? this.#runs.load(state, program) : { mismatch };
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

  async list(filter: ListFilter): Promise<ExecutionState[]> {
    return this.#store.list(filter);
  }

  isWritable(): boolean {
    return this.#runs !== undefined && this.#runs.writer.stallCause === undefined;
  }

  isRecovered(): boolean {
    return this.#isRecovered;
  }

  running(workflowId: string): number {
    const isOne = ({ status, execution }: ExecutionState): boolean =>
      status === "running" && execution.workflowId === workflowId;
    return this.#runs.all().filter(({ committed }) => isOne(committed)).length;
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
    const state = this.#committed(id);
    if (state && state.status !== "running" && state.epoch > afterEpoch) return state;
    if (state?.status === "running" && !this.#runs.get(id)) throw stopped(id);
    return this.#runs.waiters.next(id, afterEpoch, signal);
  }

  events(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<StoredEvent | LiveEvent> {
    const read = (after: EventCursor): EventPage => this.#store.events(id, after);
    const isRunning = (): boolean => this.#runs.get(id)?.committed.status === "running";
    return readEvents({ read, isRunning }, this.#runs.readers.open(id, signal), afterSeq);
  }

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const run = this.#runs.get(id);
    if (run?.decided.status !== "running") return false;
    const { position } = run;
    return this.#runs.command(run, { at: Date.now(), to: "suspended", reason, pending: [], position });
  }

  async resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false> {
    this.#runs.refuseWhenClosing();
    const isStill = (): boolean => {
      const now = this.#decided(id);
      return now?.status === "suspended" && now.epoch === epoch;
    };
    if (!isStill()) return false;
    const toNext = (): Transition => ({ at: Date.now(), to: "running", ...how });
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
    const run = this.#runs.get(id);
    const state = run?.committed ?? this.#store.state(id);
    const status = run?.decided.status ?? state?.status;
    if (!state || (status !== "running" && status !== "suspended")) return false;
    const next: Transition = { at: Date.now(), to: "error", cancellation: { reason } };
    return run ? this.#runs.command(run, next) : this.#runs.commandUndriven(state, next);
  }

  async close({ drainMs, beside }: { drainMs: number; beside?: Promise<unknown> }): Promise<void> {
    this.#closing.abort();
    this.#stopRetention();
    await this.#runs?.close(drainMs, beside);
    this.#closeStore();
  }

  #closeStore(): void {
    this.#store?.close();
    this.#unlock();
    this.#unlock = () => {};
  }
}

const interrupted = "Interrupted by a restart";
