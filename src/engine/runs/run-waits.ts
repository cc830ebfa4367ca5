import type { Walk } from "../attempts/walk.ts";
import type { ComingEvent } from "../rules/wait-order.ts";
import { Agenda } from "./agenda.ts";
import type { FoundTakes } from "./find-takes.ts";
import { eventOf, type JournalRow, type StoredWake } from "./journal-row.ts";
import type { RunPort } from "./run-port.ts";

interface WaitParts<Request> {
  readonly walk: Pick<Walk, "isWaitingFor" | "parkedBranches">;
  readonly port: Pick<RunPort, "clock" | "findEvents">;
  readonly run: WakingRun<Request>;
}
/** The run whose waits end. */
interface WakingRun<Request> {
  readonly isReleased: boolean;
  /** Whether a wait may end by itself now. */
  readonly mayWake: boolean;
  wake(wakes: readonly StoredWake[], request: Request | undefined): void;
  time(): void;
}

/** The waits of one run that end by themselves: by an event, or because their time has come. They end in the order of their times. */
export class RunWaits<Request> {
  readonly agenda: Agenda;
  readonly #parts: WaitParts<Request>;
  /** There may be events that no search has found. */
  #hasNews = false;
  #isSearching = false;
  /** The ids of the events that have ended waits of this execution. */
  #taken: Set<string> | undefined;

  constructor(parts: WaitParts<Request>) {
    this.#parts = parts;
    this.agenda = new Agenda(parts.port.clock);
  }

  get isSearching(): boolean {
    return this.#isSearching;
  }
  get mayEnd(): boolean {
    return this.#hasNews || this.agenda.hasWaits;
  }
  news(): void {
    this.#hasNews = true;
  }
  /** A wait has ended. */
  ended(row: JournalRow): void {
    const event = eventOf(row);
    if (event !== undefined) (this.#taken ??= new Set()).add(event);
  }
  /** Whether an event has ended a wait of this execution. */
  hasTaken(event: string): boolean {
    return this.#taken?.has(event) ?? false;
  }

  /** Ends the waits whose time has come; if a branch waits for an event, after a search for events. Returns whether any has come. */
  end(request: Request | undefined): boolean {
    const { walk, port } = this.#parts;
    const isDue = this.agenda.dueWaits().some(({ key }) => walk.isWaitingFor(key));
    if (this.#isSearching || !(isDue || this.#hasNews)) return isDue;
    this.#hasNews = false;
    if (!walk.parkedBranches().some(({ event }) => event)) return this.#endDue(request);
    this.#isSearching = true;
    port.findEvents((found) => this.#takeEvents(found, request));
    return true;
  }

  /** Ends waits by events, and those whose time came before. */
  #takeEvents({ takes, isCut }: FoundTakes, request: Request | undefined): void {
    const { run, walk, port } = this.#parts;
    if (run.isReleased) return;
    this.#isSearching = false;
    for (const take of takes) {
      const { key, event, receivedAt } = take;
      if (run.mayWake && walk.isWaitingFor(key) && this.#endDue(request, { key, at: receivedAt })) request = undefined;
      if (!run.mayWake || !walk.isWaitingFor(key) || this.hasTaken(event)) continue;
      run.wake([{ ...take, at: port.clock.now() }], request);
      request = undefined;
    }
    if (isCut) this.#hasNews = true;
    else if (run.mayWake && this.#endDue(request)) return;
    run.time();
  }

  /** Ends the waits whose time has come; with an event, those that count before it. */
  #endDue(request: Request | undefined, event?: ComingEvent): boolean {
    const { walk, port, run } = this.#parts;
    if (!this.agenda.hasWaits) return false;
    const ended = this.agenda.takeWaits(event).filter(({ key }) => walk.isWaitingFor(key));
    if (ended.length === 0) return false;
    const at = port.clock.now();
    const last = ended.length - 1;
    const wakes = ended.map(({ key }, index) => ({ key, at, isJoined: index < last || undefined }));
    run.wake(wakes, request);
    return true;
  }
}
