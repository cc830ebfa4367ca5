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
    const state = this.committed(id);
    if (!state) throw notFound(`Execution ${id} not found`);
    if (state.status !== "running" && state.epoch > afterEpoch && !this.#parts.drives.publisher.isUnannounced(state))
      return state;
    if (state.status === "running" && !this.#isDriven(id)) throw this.#parts.drives.toAnswer(toNotDriven(id));
    return this.#parts.drives.publisher.waiters.next(id, afterEpoch, signal);
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
      this.#parts.waiting.has(id) ||
      (this.#parts.store.state(id)?.status === "running" && this.#isResting(id));
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

  /** True if an execution has a drive, or will have one. */
  #isDriven(id: string): boolean {
    return this.#parts.drives.get(id) !== undefined || this.#parts.waiting.has(id) || this.#isResting(id);
  }
  /** True if an execution waits for the end of a retry delay, and has no drive. */
  #isResting(id: string): boolean {
    const number = this.#parts.store.journals.numberOf(id);
    return number !== undefined && this.#parts.store.waits.hasTimer(number);
  }
}
