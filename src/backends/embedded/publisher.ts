import { ServeError } from "../../core/error.ts";
import type { Metrics } from "../../core/metrics.ts";
import { toEvents } from "../../engine/events.ts";
import type { OnSettled } from "../../engine/execution-log.ts";
import { Changes } from "../../engine/runs/changes.ts";
import { countStates } from "../../engine/runs/count-states.ts";
import { Readers } from "../../engine/runs/readers.ts";
import type { Change } from "../../engine/runs/run-port.ts";
import { Waiters } from "../../engine/runs/waiters.ts";
import { isTurn } from "../../engine/turn-execution.ts";
import type { Drive } from "./drive.ts";
import type { Store } from "./store/store.ts";
import type { Commit, StoredState } from "./store/stored-state.ts";

interface PublisherParts {
  readonly store: Store;
  readonly metrics: Metrics | undefined;
  readonly sseBufferBytes: number;
  readonly onSettled: OnSettled | undefined;
}

/** Tells readers of events, callers that wait, lists and metrics of what is committed. */
export class Publisher {
  readonly readers: Readers;
  readonly changes: Changes = new Changes();
  readonly waiters: Waiters = new Waiters();
  /** A timer was added to the file. */
  onTimer: () => void = () => {};
  /** Called when a turn ended, or is left to the next start. */
  onTurnEnd: (id: string) => void = () => {};
  /** Returns true if a stored event may end a wait of a suspended execution. `tell` follows. */
  mayContinue: (drive: Drive) => boolean = () => false;
  readonly #parts: PublisherParts;
  /** The suspensions that callers have not been told, because a stored event may end them at once. */
  readonly #unannounced = new Set<number>();

  constructor(parts: PublisherParts) {
    this.#parts = parts;
    this.readers = new Readers(parts.sseBufferBytes);
  }

  publish(id: string, { at, seq }: Change, { events, states }: Commit, drive?: Drive): void {
    if (this.readers.has(id)) for (const event of toEvents(id, { at, seq, events })) this.readers.publish(id, event);
    if (states.length === 0) return;
    if (states.some(({ execution }) => isTurn(execution))) return this.onTurnEnd(id);
    countStates(this.#parts.metrics, states);
    for (const state of states) {
      this.changes.publish(state);
      if (state.last?.to === "suspended" && state.last.wake) this.onTimer();
      if (state.status === "running") continue;
      if (state.status === "suspended" && drive && this.mayContinue(drive)) this.#unannounced.add(drive.number);
      else this.waiters.notify(id, state);
      this.#parts.onSettled?.(state, drive?.failedStep);
    }
  }

  isUnannounced({ number, status }: StoredState): boolean {
    return status === "suspended" && this.#unannounced.has(number);
  }
  /** Stored events were offered to an execution: its callers are told if it is still suspended. */
  announce(number: number): void {
    if (!this.#unannounced.delete(number)) return;
    const state = this.#parts.store.stateOf(number);
    if (state && state.status !== "running") this.waiters.notify(state.execution.id, state);
  }
}

/** The answer to waiting callers of an execution that cannot continue before the next start. */
export const toNotDriven = (id: string): ServeError =>
  new ServeError(500, `Execution ${id} is not running in this process. It continues at the next start`);
