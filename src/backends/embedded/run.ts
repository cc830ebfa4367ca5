import type {
  Execution,
  ExecutionState,
  LifecycleEvent,
  LiveEvent,
  Position,
  Run,
  Selected,
  Settled,
  Transition,
} from "../../engine/types.ts";
import type { JournalRow, RowKind, StoredState } from "./store.ts";

/** What a run asks of the engine that it belongs to. */
export interface RunHost {
  /** Writes how an entry ended, unless nobody waits for it any more. */
  record(run: EmbeddedRun, key: string, settled: Settled): void;
  /** The compare-and-set of a transition that the drive wants. */
  move(run: EmbeddedRun, next: Transition, event: LifecycleEvent): Promise<boolean>;
  /** Writes what was emitted, without waiting for the next row. */
  flush(run: EmbeddedRun): void;
  publish(id: string, event: LifecycleEvent | LiveEvent): void;
}

/** One drive of one execution: first over the rows that the journal has, then over those that are added to it. */
export class EmbeddedRun implements Run {
  readonly execution: Execution;
  /** Under which the file keeps the execution. */
  readonly number: number;
  /** As committed; the drive may be behind. */
  state: ExecutionState;
  /** Emitted, and not yet in the journal; the first `#taken` of them are on their way there. */
  #pending: LifecycleEvent[] = [];
  #taken = 0;
  #storedSeq = 0;
  /** The last event, stored or not. */
  lastEvent: LifecycleEvent | undefined;
  /** The drive is over, though its last events may still be on their way into the journal. */
  left = false;
  readonly #host: RunHost;
  readonly #log: JournalRow[];
  #next = 0;
  /** The number of the last transition that the drive has seen. */
  #seen = 0;
  #suspended = false;
  readonly #registered = new Map<string, { attempt: () => Promise<Settled>; due: number }>();
  readonly #inFlight = new Set<string>();
  #waiting: ReadonlyMap<string, unknown> = new Map();
  #position: () => Position = () => ({ stepIndex: 0, stepId: "" });
  #wake = (): void => {};
  #failure: { error: unknown } | undefined;
  #stopping = false;

  constructor(state: StoredState, rows: JournalRow[], host: RunHost) {
    this.execution = state.execution;
    this.number = state.number;
    this.state = state;
    this.#host = host;
    this.#log = rows.filter(({ kind }) => kind !== "events");
    const events = rows.findLast((row) => row.events !== null)?.events;
    this.lastEvent = events ? (JSON.parse(events) as LifecycleEvent[]).at(-1) : undefined;
    this.#storedSeq = this.lastEvent?.seq ?? 0;
  }

  start(key: string, attempt: () => Promise<Settled>, delay = 0): void {
    this.#registered.set(key, { attempt, due: delay === 0 ? 0 : Date.now() + delay });
  }

  emit(event: LifecycleEvent): void {
    if (event.seq <= this.#storedSeq) return; // a replay
    this.#pending.push(event);
    this.lastEvent = event;
    this.#place(event);
    this.#host.publish(this.execution.id, event);
  }

  /** Only the drive knows where a suspension from outside has met it. */
  #place({ type, suspension }: LifecycleEvent): void {
    const { last } = this.state;
    if (type !== "workflow-suspended" || last?.to !== "suspended" || last.pending.length > 0) return;
    const { stepIndex, stepId } = suspension as Position;
    this.state = { ...this.state, last: { ...last, position: { stepIndex, stepId } } };
  }

  live(event: LiveEvent): void {
    this.#host.publish(this.execution.id, event);
  }

  async transition(next: Transition, event: LifecycleEvent): Promise<boolean> {
    // Losers that finished late stand before it: nobody waits for them.
    while (this.#next < this.#log.length && !isTransition(this.#log[this.#next]!)) this.#next++;
    const row = this.#log[this.#next];
    if (row?.kind === "signal") return false; // select will say so
    if (row) this.#next++;
    else if (!(await this.#host.move(this, next, event))) return false;
    this.#seen++;
    this.#suspended = next.to === "suspended";
    return true;
  }

  async select(waiting: ReadonlyMap<string, unknown>, position: () => Position): Promise<Selected | undefined> {
    this.#waiting = waiting;
    this.#position = position;
    for (;;) {
      if (this.#failure) throw this.#failure.error;
      while (this.#next < this.#log.length) {
        const row = this.#log[this.#next++]!;
        if (isTransition(row)) {
          const signal = JSON.parse(row.body!) as Transition;
          this.#seen++;
          this.#suspended = signal.to === "suspended";
          return { signal };
        }
        if (waiting.has(row.key)) return { key: row.key, settled: toSettled(row) };
      }
      if (this.#suspended && this.#inFlight.size === 0) {
        this.left = true;
        return undefined;
      }
      if (this.#suspended) this.#host.flush(this); // a step in flight may take long to bring the next row
      const nextDue = this.#suspended || this.#stopping ? undefined : this.#launch();
      await this.#sleep(nextDue);
    }
  }

  /** Starts what is due; returns when the next one is. */
  #launch(): number | undefined {
    let nextDue: number | undefined;
    for (const [key, { attempt, due }] of this.#registered) {
      if (!this.#waiting.has(key)) this.#registered.delete(key);
      else if (due > 0 && due > Date.now()) nextDue = Math.min(due, nextDue ?? due);
      else {
        this.#registered.delete(key);
        this.#inFlight.add(key);
        void attempt().then((settled) => this.#host.record(this, key, settled));
      }
    }
    return nextDue;
  }

  async #sleep(until: number | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = until === undefined ? undefined : setTimeout(resolve, Math.max(0, until - Date.now()));
    await promise;
    clearTimeout(timer);
  }

  // What the engine does with it.

  get position(): Position {
    return this.#position();
  }
  get inFlight(): number {
    return this.#inFlight.size;
  }
  get pending(): readonly LifecycleEvent[] {
    return this.#pending;
  }
  get seen(): number {
    return this.#seen;
  }
  isWaitedFor(key: string): boolean {
    return this.#waiting.has(key);
  }

  /** The events that go into the next row. */
  takeEvents(): readonly LifecycleEvent[] {
    const events = this.#pending.slice(this.#taken);
    this.#taken = this.#pending.length;
    return events;
  }

  /** These have been written. */
  stored(events: readonly LifecycleEvent[]): void {
    this.#pending.splice(0, events.length);
    this.#taken -= events.length;
  }

  /** An entry of this drive has been written, or dropped. */
  settled(key: string, row: JournalRow | undefined): void {
    this.#inFlight.delete(key);
    if (row) this.#log.push(row);
    this.#wake();
  }

  /** Somebody else has made a transition. */
  signal(row: JournalRow): void {
    this.#log.push(row);
    this.#wake();
  }

  fail(error: unknown): void {
    this.#failure = { error };
    this.#wake();
  }

  /** Starts nothing more. */
  stop(): void {
    this.#stopping = true;
  }
}

const isTransition = ({ kind }: JournalRow): boolean => kind === "moved" || kind === "signal";

export function toRow(key: string, settled: Settled): JournalRow {
  const [kind, body]: [RowKind, string | undefined] =
    "error" in settled
      ? ["error", JSON.stringify(settled.error)]
      : "suspended" in settled
        ? ["suspended", JSON.stringify(settled.suspended)]
        : ["value", settled.value];
  return { key, kind, at: settled.at, body: body ?? null, events: null };
}

function toSettled({ kind, at, body }: JournalRow): Settled {
  if (kind === "error") return { at, error: JSON.parse(body!) };
  if (kind === "suspended") return { at, suspended: JSON.parse(body!) };
  return { at, value: body ?? undefined };
}
