import { notFound } from "../../core/error.ts";
import { findMismatch, hasSameSteps } from "../../engine/compare-steps.ts";
import type { EventsOptions } from "../../engine/contract/engine.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { LiveEvent, StoredEvent } from "../../engine/events.ts";
import type { ExecutionState, Position } from "../../engine/execution.ts";
import type { Admissible } from "../../engine/runs/groups.ts";
import { readEvents, type EventCursor, type EventPage } from "../../engine/runs/readers.ts";
import { readPosition } from "../../engine/steps/read-steps.ts";
import type { Drive } from "./drive.ts";
import type { EngineParts } from "./engine-parts.ts";
import { toNotDriven } from "./publisher.ts";
import type { StoredState } from "./store/stored-state.ts";

/** What is known of executions: from their drives, else from the file. */
export class Reads {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  committed(id: string): StoredState | undefined {
    return this.#parts.drives.get(id)?.committed ?? this.#parts.store.state(id);
  }

  isRunning(workflowId: string): boolean {
    const isOne = ({ status, execution }: ExecutionState): boolean =>
      status === "running" && execution.workflowId === workflowId;
    if (this.#parts.drives.all().some(({ committed }) => isOne(committed))) return true;
    return this.#parts.waiting.count(workflowId) > 0 || this.#parts.store.waits.hasResting(workflowId);
  }

  async startedSteps(id: string): Promise<ReadonlySet<string> | undefined> {
    return this.#parts.drives.get(id) ? undefined : this.#startedSteps(id);
  }

  async #startedSteps(id: string): Promise<ReadonlySet<string>> {
    const paths = new Set<string>();
    try {
      for await (const page of this.#parts.store.journals.allEvents(id))
        for (const { type, from = "" } of page) if (type === "step-start") paths.add(from);
    } catch (error) {
      throw this.#parts.drives.toAnswer(error);
    }
    return paths;
  }

  async settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    const known = this.#parts.known();
    if (known) await known;
    const { drives, store } = this.#parts;
    const drive = drives.get(id);
    const state = drive?.committed ?? store.state(id);
    if (!state) throw notFound(`Execution ${id} not found`);
    if (state.status !== "running" && state.epoch > afterEpoch && !drives.publisher.isUnannounced(state)) return state;
    if (state.status === "running" && !drive && !this.#isWaiting(id)) throw drives.toAnswer(toNotDriven(id));
    return drives.publisher.waiters.next(id, afterEpoch, signal);
  }

  events(
    id: string,
    afterSeq: number,
    signal: AbortSignal,
    { until }: EventsOptions = {},
  ): AsyncGenerator<StoredEvent | LiveEvent> {
    const readPage = (after: EventCursor): EventPage => this.#parts.store.journals.events(id, after);
    const read = (after: EventCursor): EventPage | Promise<EventPage> =>
      this.#parts.known()?.then(() => readPage(after)) ?? readPage(after);
    const isRunning = (): boolean =>
      this.#parts.drives.get(id)?.committed.status === "running" ||
      (this.#parts.store.state(id)?.status === "running" && this.#isWaiting(id));
    const isOpen = (): boolean => isRunning() || (until === "end" && this.committed(id)?.status === "suspended");
    return readEvents({ read, isOpen }, this.#parts.drives.publisher.readers.open(id, signal), afterSeq);
  }

  /** Replays an execution and registers its drive; returns the first mismatch when it does not fit the program. */
  async load(state: StoredState, program: Program, slot?: Admissible): Promise<Drive | { mismatch: string }> {
    const { id, steps } = state.execution;
    const isSame = hasSameSteps(steps, program.steps);
    const mismatch = isSame ? undefined : findMismatch(steps, program.steps, await this.#startedSteps(id));
    return mismatch === undefined ? this.#parts.drives.load(state, program, slot) : { mismatch };
  }

  /** The place of an execution that has no drive. */
  async lastPosition(id: string): Promise<Position | undefined> {
    const { store, waiting } = this.#parts;
    const execution = store.state(id)?.execution;
    return execution && readPosition(execution, store.journals.history(id), waiting.programOf(execution.workflowId));
  }

  /** True if a running execution has no drive yet: it waits for its turn, or for the end of a rest. */
  #isWaiting(id: string): boolean {
    const { waiting, store } = this.#parts;
    if (waiting.has(id)) return true;
    const number = store.journals.numberOf(id);
    return number !== undefined && store.waits.hasTimer(number);
  }
}
