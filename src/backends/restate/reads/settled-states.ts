import { setTimeout as sleep } from "node:timers/promises";
import { shuttingDown } from "../../../core/error.ts";
import type { ExecutionState } from "../../../engine/execution.ts";
import { Waiters } from "../../../engine/runs/waiters.ts";
import type { Arrivals } from "../arrivals.ts";
import type { RestateClient } from "../client/client.ts";
import type { States } from "./states.ts";
import type { LocalDrives } from "../drive/drives.ts";

/** Max states that are kept for callers about to ask, and max characters in them. */
const maxRecent = 1_000;
const maxChars = 16_777_216;

interface SettledParts {
  readonly client: RestateClient;
  readonly states: States;
  readonly drives: LocalDrives;
  readonly arrivals: Arrivals;
  readonly closed: AbortSignal;
}

/** A wait in Restate, shared by the callers of this replica. */
interface SharedWait {
  readonly state: Promise<ExecutionState>;
  readonly stop: AbortController;
  callers: number;
}

/** The next suspension or end of executions, for the callers of this replica that wait for it. */
export class SettledStates {
  readonly #parts: SettledParts;
  readonly #here = new Waiters();
  /** States of the executions that were started or resumed here, until the caller asks for them; undefined before. */
  readonly #recent = new Map<string, ExecutionState | undefined>();
  readonly #elsewhere = new Map<string, SharedWait>();
  #chars = 0;

  constructor(parts: SettledParts) {
    this.#parts = parts;
  }

  /** Keeps the next state of an execution for a caller that is about to ask. */
  expect(id: string): void {
    this.forget(id);
    this.#recent.set(id, undefined);
    this.#evict();
  }
  forget(id: string): void {
    const state = this.#recent.get(id);
    if (state) this.#chars -= toChars(state);
    this.#recent.delete(id);
  }
  #evict(): void {
    for (const id of this.#recent.keys()) {
      if (this.#recent.size <= maxRecent && this.#chars <= maxChars) return;
      this.forget(id);
    }
  }

  /** An execution has a new state. Callers wait for those in which it does not run. */
  notify(state: ExecutionState): void {
    if (state.status === "running") return;
    const { id } = state.execution;
    if (this.#recent.has(id)) {
      this.forget(id);
      this.#recent.set(id, state);
      this.#chars += toChars(state);
      this.#evict();
    }
    this.#here.notify(id, state);
  }

  /** Resolves to the next state after an epoch, whichever replica drives the execution. */
  async next(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState> {
    const recent = this.#recent.get(id);
    this.forget(id);
    if (recent && recent.epoch > afterEpoch) return recent;
    const { closed } = this.#parts;
    const over = new AbortController();
    const stop = AbortSignal.any([over.signal, closed, ...(signal ? [signal] : [])]);
    const here = this.#here.next(id, afterEpoch, stop);
    here.catch(() => {}); // reported by the race, or the caller is disconnected
    const leave = this.#parts.arrivals.expect(id);
    try {
      return await Promise.race([here, this.#nextElsewhere(id, afterEpoch, stop)]);
    } catch (error) {
      throw closed.aborted ? shuttingDown() : error;
    } finally {
      leave();
      over.abort();
    }
  }

  /** Asks Restate, once it is clear that this replica does not drive the execution. */
  async #nextElsewhere(id: string, afterEpoch: number, signal: AbortSignal): Promise<ExecutionState> {
    await sleep(this.#parts.arrivals.waitMs);
    const { client, drives } = this.#parts;
    if (drives.get(id)) await client.whileReachable(drives.gone(id));
    if (signal.aborted) throw signal.reason;
    const key = `${afterEpoch} ${id}`;
    const wait = this.#elsewhere.get(key) ?? this.#open(key, id, afterEpoch);
    wait.callers++;
    const leave = (): void => {
      if (--wait.callers > 0) return;
      if (this.#elsewhere.get(key) === wait) this.#elsewhere.delete(key);
      wait.stop.abort();
    };
    signal.addEventListener("abort", leave, { once: true });
    return wait.state;
  }

  #open(key: string, id: string, afterEpoch: number): SharedWait {
    const stop = new AbortController();
    const wait: SharedWait = { state: this.#ask(id, afterEpoch, stop.signal), stop, callers: 0 };
    this.#elsewhere.set(key, wait);
    const remove = (): void => {
      if (this.#elsewhere.get(key) === wait) this.#elsewhere.delete(key);
    };
    wait.state.then(remove, remove);
    return wait;
  }

  async #ask(id: string, afterEpoch: number, signal: AbortSignal): Promise<ExecutionState> {
    const { client, states } = this.#parts;
    for (;;) {
      const input = { id, afterEpoch };
      const state = await client.wait("settled", input, signal);
      if (state) return state;
      await states.adopt(id).catch(() => {});
      const now = await states.state(id);
      if (!now) throw new Error(`Execution ${id} does not exist`);
      if (now.status !== "running" && now.epoch > afterEpoch) return now;
    }
  }

  close(): void {
    this.#here.close(shuttingDown());
  }
}

/** The characters in the long parts of a state. */
function toChars({ execution, last }: ExecutionState): number {
  const result = last?.to === "completed" ? (last.result?.length ?? 0) : 0;
  const pending = last?.to === "suspended" ? last.pending.reduce((sum, { data }) => sum + (data?.length ?? 0), 0) : 0;
  return execution.input.length + result + pending;
}
