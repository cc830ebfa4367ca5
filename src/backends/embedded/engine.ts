import { ServeError } from "../../core/error.ts";
import type { Logger } from "../../core/log.ts";
import { isClosing, toTransitionEvent } from "../../engine/events.ts";
import type {
  Drive,
  Engine,
  Execution,
  ExecutionState,
  LifecycleEvent,
  ListFilter,
  LiveEvent,
  Resume,
  Settled,
  Transition,
} from "../../engine/types.ts";
import { EventLog } from "./event-log.ts";
import { Readers } from "./readers.ts";
import { EmbeddedRun, toRow, type RunHost } from "./run.ts";
import { Store, type JournalRow, type StoredState } from "./store.ts";
import { Waiters } from "./waiters.ts";
import { Writer } from "./writer.ts";

export interface EmbeddedOptions {
  readonly path: string;
  readonly durability: "normal" | "full";
  readonly sseBufferBytes: number;
  readonly logger: Logger;
}

/** The engine on one SQLite file, with one writer. */
export class EmbeddedEngine implements Engine, RunHost {
  readonly #path: string;
  readonly #durability: EmbeddedOptions["durability"];
  // Opened by `open`: until then nobody asks.
  #store!: Store;
  readonly #writer: Writer;
  readonly #readers: Readers;
  readonly #logger: Logger;
  /** The drives of this process. An execution that is suspended with nothing in flight has none. */
  readonly #runs = new Map<string, EmbeddedRun>();
  readonly #waiters = new Waiters();
  #closing = false;
  #closed = false;
  #whenIdle = (): void => {};

  constructor({ path, durability, sseBufferBytes, logger }: EmbeddedOptions) {
    this.#path = path;
    this.#durability = durability;
    this.#writer = new Writer((work) => this.#store.transaction(work));
    this.#readers = new Readers(sseBufferBytes);
    this.#logger = logger;
  }

  async open(driveOf: (execution: Execution) => Drive | undefined): Promise<void> {
    this.#store = new Store(this.#path, this.#durability);
    for (const state of this.#store.toDrive()) {
      const drive = driveOf(state.execution);
      if (drive) this.#drive(state, this.#store.journal(state.number), drive);
    }
  }

  async begin(execution: Execution, drive: Drive): Promise<{ created: boolean }> {
    if (this.#closing) throw shuttingDown();
    const number = await this.#writer.commit(
      () => this.#store.begin(execution),
      (fresh) => fresh && this.#drive({ number: fresh, execution, status: "running", epoch: 0 }, [], drive),
    );
    return { created: number !== undefined };
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

  async settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    for (;;) {
      const state = await this.state(id);
      if (state && state.status !== "running" && state.epoch > afterEpoch) return state;
      await this.#waiters.next(id, signal);
    }
  }

  suspend(id: string, reason: string): Promise<ExecutionState | false> {
    return this.#signal(id, undefined, (state) => {
      if (state.status !== "running") return undefined;
      return { to: "suspended", at: Date.now(), reason, pending: [], position: this.#runs.get(id)?.position };
    });
  }

  resume(id: string, epoch: number, how: Resume, drive: Drive): Promise<ExecutionState | false> {
    return this.#signal(id, drive, (state) => {
      if (state.status !== "suspended" || state.epoch !== epoch) return undefined;
      return { to: "running", at: Date.now(), ...how };
    });
  }

  cancel(id: string, reason: string): Promise<ExecutionState | false> {
    return this.#signal(id, undefined, (state) => {
      if (state.status !== "running" && state.status !== "suspended") return undefined;
      return { to: "error", at: Date.now(), cancellation: { reason } };
    });
  }

  /** A transition from outside: reading, deciding and writing are one transaction. */
  async #signal(id: string, drive: Drive | undefined, decide: Decide): Promise<ExecutionState | false> {
    const won = await this.#writer.commit(
      () => this.#writeSignal(id, decide),
      (signal) => signal && this.#follow(signal, drive),
    );
    return won && won.state;
  }

  #writeSignal(id: string, decide: Decide): Signal | false {
    const before = this.#store.state(id);
    const next = before && decide(before);
    if (!before || !next) return false;
    const { number, execution } = before;
    const epoch = before.epoch + 1;
    const run = this.#runs.get(id);
    // When nobody drives it, nobody will: its last event is made here, after those that are still on their way.
    const isLast = next.to === "error" && (!run || run.left);
    const events = isLast ? this.#lastEvents(run, before, next) : [];
    if (!this.#store.move(number, before.epoch, next, !isLast && next.to !== "running")) return false;
    const row: JournalRow = { key: `!${epoch}`, kind: "signal", at: next.at, body: JSON.stringify(next), events: null };
    this.#store.add(number, row, events);
    return { row, event: events.at(-1), state: { number, execution, status: next.to, epoch, last: next } };
  }

  #lastEvents(run: EmbeddedRun | undefined, { number, execution }: StoredState, next: Transition): LifecycleEvent[] {
    const stored = this.#store.lastSeq(number);
    const onTheirWay = run?.pending.filter(({ seq }) => seq > stored) ?? [];
    const last = onTheirWay.at(-1)?.seq ?? stored;
    return [...onTheirWay, toTransitionEvent(execution.id, last + 1, next)];
  }

  #follow({ row, event, state }: Signal, drive: Drive | undefined): void {
    const { id } = state.execution;
    const run = this.#runs.get(id);
    if (run) run.state = state;
    if (run && !run.left) run.signal(row);
    else if (drive && state.status === "running") this.#drive(state, this.#store.journal(state.number), drive);
    if (event) this.publish(id, event);
  }

  #drive(state: StoredState, rows: JournalRow[], drive: Drive): void {
    const run = new EmbeddedRun(state, rows, this);
    this.#runs.set(state.execution.id, run);
    if (this.#closing) run.stop();
    drive(run)
      .catch((error) => {
        if (!this.#closed) this.#logger.error("An execution stopped", { error, executionId: state.execution.id });
      })
      .then(() => this.#leave(run));
  }

  /** The drive is over. What it emitted last goes into the journal before it is forgotten. */
  #leave(run: EmbeddedRun): void {
    run.left = true;
    this.flush(run, () => {
      if (this.#runs.get(run.execution.id) === run) this.#runs.delete(run.execution.id);
      this.#checkIdle();
    });
  }

  // What a run asks for.

  flush(run: EmbeddedRun, done: () => void = () => {}): void {
    const { number } = run;
    const { epoch, last } = run.state;
    const events = run.takeEvents();
    const lastSeq = events.at(-1)?.seq;
    if (lastSeq === undefined) return done();
    this.#writer.write(
      () => {
        if (this.#store.lastSeq(number) >= lastSeq) return; // a cancel has taken them along
        this.#store.add(number, eventsRow(), events);
        if (last) this.#store.settle(number, epoch, last);
      },
      () => {
        run.stored(events);
        done();
      },
      (error) => this.#logger.error("Events were not stored", { error, executionId: run.execution.id }),
    );
  }

  record(run: EmbeddedRun, key: string, settled: Settled): void {
    const { number } = run;
    const row = toRow(key, settled);
    const events = run.takeEvents();
    this.#writer.write(
      () => {
        // A loser that finished late: nobody waits for it, and its drive may be over.
        const kept = run.isWaitedFor(key);
        if (kept) this.#store.add(number, row, events);
        else if (events.length > 0) this.#store.add(number, eventsRow(), events);
        return kept;
      },
      (kept) => {
        run.stored(events);
        run.settled(key, kept ? row : undefined);
        this.#checkIdle();
      },
      (error) => run.fail(error),
    );
  }

  move(run: EmbeddedRun, next: Transition, event: LifecycleEvent): Promise<boolean> {
    const { number, execution, seen } = run;
    const events = run.takeEvents();
    return this.#writer.commit(
      () => {
        const won = this.#store.move(number, seen, next, false);
        const row: JournalRow = {
          key: `!${seen + 1}`,
          kind: "moved",
          at: next.at,
          body: JSON.stringify(next),
          events: null,
        };
        if (won) this.#store.add(number, row, [...events, event]);
        else if (events.length > 0) this.#store.add(number, eventsRow(), events);
        return won;
      },
      (won) => {
        run.stored(events);
        if (!won) return;
        run.state = { execution, status: next.to, epoch: seen + 1, last: next };
        run.lastEvent = event;
        this.publish(execution.id, event);
      },
    );
  }

  /** To whoever listens, and to whoever waits for a suspension or an end. */
  publish(id: string, event: LifecycleEvent | LiveEvent): void {
    this.#readers.publish(id, event);
    if (isClosing(event)) this.#waiters.notify(id);
  }

  events(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<LifecycleEvent | LiveEvent> {
    const reader = this.#readers.open(id, signal);
    return new EventLog(id, this.#store, () => this.#runs.get(id)).read(reader, afterSeq);
  }

  /**
   * Starts nothing more and lets steps in flight finish within the grace: whoever waits for an execution that they end
   * hears of it. The rest is left to the next start.
   */
  async close({ drainMs }: { drainMs: number }): Promise<void> {
    this.#closing = true;
    for (const run of this.#runs.values()) run.stop();
    this.#readers.closeAll();
    const idle = Promise.withResolvers<void>();
    this.#whenIdle = idle.resolve;
    const timer = setTimeout(idle.resolve, drainMs);
    this.#checkIdle();
    await idle.promise;
    clearTimeout(timer);
    // The last entry has been written; the end that follows from it takes another commit.
    await this.#writer.idle();
    this.#waiters.refuse(shuttingDown());
    this.#writer.close();
    this.#closed = true;
    this.#store?.close();
  }

  #checkIdle(): void {
    if (this.#closing && ![...this.#runs.values()].some(({ inFlight }) => inFlight > 0)) this.#whenIdle();
  }
}

type Decide = (state: ExecutionState) => Transition | undefined;
/** A transition from outside, once it is written. */
interface Signal {
  readonly row: JournalRow;
  /** Its event, when no drive will make it. */
  readonly event: LifecycleEvent | undefined;
  readonly state: StoredState;
}

const eventsRow = (): JournalRow => ({ key: "~", kind: "events", at: Date.now(), body: null, events: null });
const shuttingDown = (): ServeError => new ServeError(503, "Server is shutting down");
