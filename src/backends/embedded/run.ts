import { toEvent, toTransitionEvent } from "../../engine/events.ts";
import type { Drive, EntryResult, Start, JournalInput, Walk } from "../../engine/walk/walk.ts";
import type { Execution, Position, Transition } from "../../engine/execution.ts";
import type { EventBody, StoredEvent, LiveEvent } from "../../engine/events.ts";
import type { JournalRow, RowKind, StoredState } from "./store.ts";

export interface RunOptions {
  readonly drive: Drive;
  readonly live: (event: LiveEvent) => void;
  /** An attempt has ended. */
  readonly ended: (run: EmbeddedRun, key: string, settled: EntryResult) => void;
}

/** What one row brings about, to be written with it and, once that is durable, to be seen and started. */
export interface Effect {
  /** Undefined at the beginning, which is not a row of the journal. */
  readonly row: JournalRow | undefined;
  /** Of the last event. */
  readonly seq: number;
  readonly at: number;
  readonly events: readonly EventBody[];
  readonly starts: readonly Start[];
  /** The states that it leads to, in order. */
  readonly states: readonly StoredState[];
}

/**
 * An execution that this process drives. It decides in memory, in the order in which things arrive, and is ahead of the
 * file by what is being written; nobody sees or starts anything of that before it is durable.
 */
export class EmbeddedRun {
  readonly number: number;
  readonly execution: Execution;
  /** As committed. */
  state: StoredState;
  /** As decided. */
  ahead: StoredState;
  /** How many of its effects are being written. */
  writing = 0;
  readonly #walk: Walk;
  readonly #ended: RunOptions["ended"];
  /** What is to be started, and from when on. */
  readonly #starts = new Map<Start, number>();
  readonly #inFlight = new Set<string>();
  #seq = 0;
  /** Whether it has its turn: until then nothing is started. */
  #admitted = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(state: StoredState, { drive, live, ended }: RunOptions) {
    this.number = state.number;
    this.execution = state.execution;
    this.state = state;
    this.ahead = { ...state, status: "running", epoch: 0, last: undefined };
    this.#ended = ended;
    this.#walk = drive(state.execution, live);
  }

  begin(): Effect {
    return this.#take(undefined, this.execution.startAt, undefined);
  }

  /**
   * Walks over what the journal has; what was in flight when it ended is to be started again. Returns where this code goes
   * another way than the code that wrote it: with fewer retries, say, or a check that was not there.
   */
  replay(rows: readonly JournalRow[]): string | undefined {
    const { state } = this;
    this.#register(this.begin().starts);
    for (const row of rows) {
      const taken = fromRow(row);
      if ("key" in taken && !this.isWaitedFor(taken.key)) return row.key;
      this.#register(this.#take(taken, row.at, row).starts);
    }
    if (this.ahead.status !== state.status || this.ahead.epoch !== state.epoch)
      return rows.at(-1)?.key ?? "the beginning";
    this.ahead = state;
    return undefined;
  }

  /** How an entry ended. Only for one that is waited for. */
  settle(key: string, settled: EntryResult): Effect {
    return this.#take({ key, settled }, settled.at, toRow(key, settled));
  }

  /** Somebody has decided from outside. */
  signal(next: Transition): Effect {
    return this.#take({ signal: next }, next.at, toSignalRow(this.ahead.epoch + 1, next));
  }

  #take(taken: JournalInput | undefined, at: number, row: JournalRow | undefined): Effect {
    const states: StoredState[] = [];
    const reach = (next: Transition): void => {
      this.ahead = { ...this.ahead, status: next.to, epoch: this.ahead.epoch + 1, last: next };
      states.push(this.ahead);
    };
    if (taken && "signal" in taken) reach(taken.signal);
    const { events, starts, transition } = this.#walk.next(taken);
    // Nobody can be faster: whoever else decides about this execution does so in this process, before or after.
    if (transition) {
      reach(transition);
      this.#walk.moved();
    }
    const all = transition ? [...events, toTransitionEvent(transition)] : events;
    this.#seq += all.length;
    return { row, at, starts, states, events: all, seq: this.#seq };
  }

  /** An effect of it is durable. */
  committed({ starts, states }: Effect): void {
    this.state = states.at(-1) ?? this.state;
    this.#register(starts);
    this.launch();
  }

  #register(starts: readonly Start[]): void {
    for (const start of starts) this.#starts.set(start, start.delay === 0 ? 0 : Date.now() + start.delay);
  }

  admit(): void {
    this.#admitted = true;
    this.launch();
  }

  /** Starts what is due. While it is suspended, or a resume is being written, nothing is. */
  launch(): void {
    if (this.#timer) clearTimeout(this.#timer);
    if (!this.#admitted || this.#stopped) return;
    if (this.state.status !== "running" || this.ahead.status !== "running") return;
    let nextDue = Infinity;
    for (const [start, due] of this.#starts) {
      if (due > 0 && due > Date.now()) {
        nextDue = Math.min(due, nextDue);
        continue;
      }
      this.#starts.delete(start);
      if (this.isWaitedFor(start.key)) this.#attempt(start);
    }
    if (nextDue < Infinity) this.#timer = setTimeout(() => this.launch(), Math.max(0, nextDue - Date.now()));
  }

  #attempt(start: Start): void {
    const { key } = start;
    this.#inFlight.add(key);
    start.run((settled) => {
      this.#inFlight.delete(key);
      this.#ended(this, key, settled);
    });
  }

  /** Starts nothing more. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  leave(): void {
    this.stop();
    this.#walk.leave();
  }

  isWaitedFor(key: string): boolean {
    return this.#walk.waiting.has(key);
  }
  /** Whether the journal has all there is to know of it: it has ended, or is suspended with nothing in flight. */
  get isIdle(): boolean {
    const { status } = this.state;
    if (this.writing > 0 || status === "running" || this.ahead !== this.state) return false;
    return status !== "suspended" || this.#inFlight.size === 0;
  }
  get inFlight(): number {
    return this.#inFlight.size;
  }
  get position(): Position {
    return this.#walk.position();
  }
}

/** The events of an effect, as readers see them. */
export function* eventsOf(id: string, { at, seq, events }: Effect): Generator<StoredEvent> {
  const first = seq - events.length + 1;
  for (const [index, event] of events.entries()) yield toEvent(id, first + index, at, event);
}

export const toSignalRow = (epoch: number, next: Transition): JournalRow => ({
  key: `!${epoch}`,
  kind: "signal",
  at: next.at,
  body: JSON.stringify(next),
});

function toRow(key: string, settled: EntryResult): JournalRow {
  const [kind, body]: [RowKind, string | undefined] =
    "error" in settled
      ? ["error", JSON.stringify(settled.error)]
      : "suspended" in settled
        ? ["suspended", JSON.stringify(settled.suspended)]
        : ["value", settled.value];
  return { key, kind, at: settled.at, body: body ?? null };
}

function fromRow({ key, kind, at, body }: JournalRow): JournalInput {
  if (kind === "signal") return { signal: JSON.parse(body!) };
  if (kind === "error") return { key, settled: { at, error: JSON.parse(body!) } };
  if (kind === "suspended") return { key, settled: { at, suspended: JSON.parse(body!) } };
  return { key, settled: { at, value: body ?? undefined } };
}
