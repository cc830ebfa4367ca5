import { dirname } from "node:path";
import { ServeError } from "../../core/error.ts";
import { withIds } from "../../core/log.ts";
import { findChange } from "../../engine/changes.ts";
import type { Conversations } from "../../engine/conversations.ts";
import type { Engine, ListFilter, Program, Resume } from "../../engine/backend.ts";
import type { Execution, ExecutionState, Position, Transition } from "../../engine/execution.ts";
import type { StoredEvent, LiveEvent } from "../../engine/events.ts";
import { EmbeddedConversations } from "./conversations.ts";
import { readEvents } from "./event-log.ts";
import { prepareFolder } from "./folder.ts";
import { Journal, type JournalOptions } from "./journal.ts";
import { lock, whenFree, type WaitOptions } from "./lock.ts";
import { startRetention } from "./retention.ts";
import { EmbeddedRun } from "./run.ts";
import { toStoreError } from "./sqlite-error.ts";
import { Store, type StoredState } from "./store.ts";

export interface EmbeddedOptions extends Omit<JournalOptions, "store"> {
  readonly path: string;
  readonly durability: "normal" | "full";
  readonly retentionMs: number | undefined;
}

/** The engine on one SQLite file, of which it is the only writer. */
export class EmbeddedEngine implements Engine {
  readonly #options: EmbeddedOptions;
  // Made by `open`: until then nobody asks.
  #store!: Store;
  #journal!: Journal;
  #unlock = (): void => {};
  #stopRetention = (): void => {};
  readonly #closing = new AbortController();
  readonly conversations: Conversations = new EmbeddedConversations(() => ({
    messages: this.#store.messages,
    writer: this.#journal.writer,
  }));

  constructor(options: EmbeddedOptions) {
    this.#options = options;
  }

  async open(programOf: (workflowId: string) => Program | undefined, mayRun?: () => Promise<unknown>): Promise<void> {
    const { path, retentionMs } = this.#options;
    const { signal } = this.#closing;
    let refusal: unknown; // not about the store
    try {
      signal.throwIfAborted();
      await this.#openStore();
      await mayRun?.().catch((error: unknown) => {
        refusal = error;
        throw error;
      });
      signal.throwIfAborted(); // it may have been closed meanwhile
      this.#journal = new Journal({ ...this.#options, store: this.#store });
      const running = this.#store.running();
      await Promise.all(running.map((state) => this.#recover(state, programOf(state.execution.workflowId))));
    } catch (error) {
      this.#closeStore();
      throw refusal ?? toStoreError(path, error);
    }
    if (retentionMs !== undefined && !signal.aborted)
      this.#stopRetention = startRetention(this.#store, this.#journal.writer, retentionMs);
  }

  async #openStore(): Promise<void> {
    const { path, durability, logger } = this.#options;
    const onWait = (): void => logger.info("Another process is using the store: waiting for it to leave");
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
    if (program?.recovery === "fail")
      return void (await this.#journal.decide(state, {
        at,
        to: "error",
        error: { message: interrupted, shown: true },
      }));
    const change = this.#tryToLoad(state, program);
    if (change === undefined) return;
    const { id, workflowId } = state.execution;
    const reason = `Workflow changed: ${change}`;
    withIds(this.#options.logger, { executionId: id, workflowId }).warn("An execution cannot go on", { reason });
    await this.#journal.decide(state, { at, to: "suspended", reason, pending: [], position: this.#lastPosition(id) });
  }

  /** Why it cannot go on; undefined when it does. */
  #tryToLoad(state: StoredState, program: Program | undefined): string | undefined {
    const { id, workflowId, steps } = state.execution;
    if (!program) return `workflow ${workflowId} is gone`;
    const change = findChange(steps, program.steps, () => this.#begun(id));
    if (change !== undefined) return change;
    const loaded = this.#journal.load(state, program);
    return loaded instanceof EmbeddedRun ? undefined : loaded.change;
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

  async begin(execution: Execution, program: Program): Promise<{ created: boolean }> {
    return { created: await this.#journal.begin(execution, program) };
  }

  async state(id: string): Promise<ExecutionState | undefined> {
    return this.#committed(id);
  }

  #committed(id: string): StoredState | undefined {
    return this.#journal.get(id)?.state ?? this.#store.state(id);
  }

  /** As decided: what is being written counts. */
  #decided(id: string): StoredState | undefined {
    return this.#journal.get(id)?.ahead ?? this.#store.state(id);
  }

  async list(filter: ListFilter): Promise<ExecutionState[]> {
    return this.#store.list(filter);
  }

  running(workflowId: string): number {
    const isOne = ({ status, execution }: ExecutionState): boolean =>
      status === "running" && execution.workflowId === workflowId;
    return this.#journal.runs().filter(({ state }) => isOne(state)).length;
  }

  async begun(id: string): Promise<ReadonlySet<string> | undefined> {
    return this.#journal.get(id) ? undefined : this.#begun(id);
  }

  #begun(id: string): ReadonlySet<string> {
    const starts = this.#store.events(id, 0).filter(({ type }) => type === "step-start");
    return new Set(starts.map(({ from }) => from!));
  }

  async settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    const state = this.#committed(id);
    const isSettled = state && state.status !== "running" && state.epoch > afterEpoch;
    return isSettled ? state : this.#journal.waiters.next(id, afterEpoch, signal);
  }

  events(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<StoredEvent | LiveEvent> {
    const isRunning = (): boolean => this.#journal.get(id)?.state.status === "running";
    return readEvents(this.#store, id, this.#journal.readers.open(id, signal), afterSeq, isRunning);
  }

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const run = this.#journal.get(id);
    if (run?.ahead.status !== "running") return false;
    const { position } = run;
    return this.#journal.signal(run, { at: Date.now(), to: "suspended", reason, pending: [], position });
  }

  async resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false> {
    this.#journal.refuseWhenClosing();
    const state = this.#decided(id);
    if (state?.status !== "suspended" || state.epoch !== epoch) return false;
    const next: Transition = { at: Date.now(), to: "running", ...how };
    const driven = this.#journal.get(id);
    if (driven) return this.#journal.signal(driven, next);
    const release = this.#journal.slots.reserve();
    const run = this.#journal.load(state, program);
    release();
    if (!(run instanceof EmbeddedRun)) throw new ServeError(409, `Workflow changed: ${run.change}`);
    // Nothing of it is in flight: when it cannot be written it is forgotten again, as if nobody had asked.
    return this.#journal.signal(run, next, true);
  }

  async cancel(id: string, reason: string): Promise<ExecutionState | false> {
    const state = this.#decided(id);
    if (state?.status !== "running" && state?.status !== "suspended") return false;
    const next: Transition = { at: Date.now(), to: "error", cancellation: { reason } };
    const run = this.#journal.get(id);
    return run ? this.#journal.signal(run, next) : this.#journal.decide(state, next);
  }

  async close({ drainMs, beside }: { drainMs: number; beside?: Promise<unknown> }): Promise<void> {
    this.#closing.abort();
    this.#stopRetention();
    await this.#journal?.close(drainMs, beside);
    this.#closeStore();
  }

  #closeStore(): void {
    this.#store?.close();
    this.#unlock();
    this.#unlock = () => {};
  }
}

const interrupted = "Interrupted by a restart";
