import type { ChangeReader, ExecutionChange, ListFilter } from "../contract/engine.ts";
import type { ExecutionState } from "../execution.ts";
import { kindOf } from "../suspension.ts";

/** Max changes that wait for a reader. */
const maxWaiting = 1_000;

/** Max remembered epochs, one for each execution: a change that is published again is dropped. */
const maxRemembered = 1_000;

/** The readers with one filter: it is compared once for all of them. */
interface FilterGroup {
  readonly filter: ChangeFilter;
  readonly readers: Set<ChangeReader>;
}

/** The readers of starts and transitions. Without one, a change costs nothing. */
export class Changes {
  readonly #groups = new Map<string, FilterGroup>();
  readonly #epochs: Map<string, number> | undefined;
  readonly #onEmpty: (() => void) | undefined;

  /**
   * `isRepeated`: a change may be published twice, by its caller and by the run. `onEmpty` is called
   * when the last reader ended.
   */
  constructor({ isRepeated = false, onEmpty }: { isRepeated?: boolean; onEmpty?: () => void } = {}) {
    this.#epochs = isRepeated ? new Map() : undefined;
    this.#onEmpty = onEmpty;
  }

  publish(state: ExecutionState): void {
    if (this.#groups.size === 0) return;
    const { execution, status, epoch, last } = state;
    const { id, workflowId, userId } = execution;
    if (this.#epochs && !remember(this.#epochs, id, epoch)) return;
    this.notify({ executionId: id, workflowId, userId, status, kind: kindOf(last) }, state);
  }

  notify(change: ExecutionChange, state: ExecutionState): void {
    for (const { filter, readers } of this.#groups.values())
      if (isIn(filter, change)) for (const reader of readers) reader.push(change, state);
  }

  /** Returns whether one of the readers would get a change. */
  wants(change: ExecutionChange): boolean {
    for (const { filter } of this.#groups.values()) if (isIn(filter, change)) return true;
    return false;
  }

  /** Ends all readers. The first one throws the error: it is reported once. */
  end(error?: unknown): void {
    for (const { readers } of this.#groups.values())
      for (const reader of readers) {
        reader.end(error);
        error = undefined;
      }
  }

  /** Passes each change to a reader, from the call on. Ends it with the signal. */
  watch(reader: ChangeReader, signal: AbortSignal): void {
    if (signal.aborted) return reader.end();
    const remove = this.#add({}, reader);
    const leave = (): void => {
      remove();
      reader.end();
    };
    signal.addEventListener("abort", leave, { once: true });
  }

  /** Listens from the call on. Ends when the reader is too slow, or with the signal. */
  open(filter: ChangeFilter, signal: AbortSignal): AsyncGenerator<ExecutionChange> {
    const waiting: ExecutionChange[] = [];
    let isOver = signal.aborted;
    let failure: unknown;
    let wake: (() => void) | undefined;
    const push = (change: ExecutionChange): void => {
      waiting.push(change);
      if (waiting.length > maxWaiting) end();
      wake?.();
    };
    const end = (error?: unknown): void => {
      if (isOver) return;
      isOver = true;
      failure = error;
      waiting.length = 0;
      signal.removeEventListener("abort", leave);
      wake?.();
      remove?.();
    };
    const leave = (): void => end();
    const remove = isOver ? undefined : this.#add(filter, { push, end });
    signal.addEventListener("abort", leave, { once: true });
    return read();

    async function* read(): AsyncGenerator<ExecutionChange> {
      try {
        for (;;) {
          if (failure !== undefined) throw failure;
          if (isOver) return; // a reader that has missed one change cannot use the others
          const next = waiting.shift();
          if (next) yield next;
          else await new Promise<void>((resolve) => (wake = resolve));
        }
      } finally {
        end();
      }
    }
  }

  /** Returns a function that removes the reader. */
  #add({ workflowId, userId }: ChangeFilter, reader: ChangeReader): () => void {
    const key = JSON.stringify([workflowId, userId]);
    const group = this.#groups.get(key) ?? { filter: { workflowId, userId }, readers: new Set() };
    this.#groups.set(key, group);
    group.readers.add(reader);
    return () => {
      group.readers.delete(reader);
      if (group.readers.size === 0) this.#groups.delete(key);
      if (this.#groups.size === 0) this.#onEmpty?.();
    };
  }
}

const isIn = ({ workflowId, userId }: ChangeFilter, change: ExecutionChange): boolean =>
  (workflowId === undefined || change.workflowId === workflowId) &&
  (userId === undefined || (change.userId ?? null) === userId);

/** Returns false for an epoch that is known. The oldest entries are dropped. */
function remember(epochs: Map<string, number>, id: string, epoch: number): boolean {
  if ((epochs.get(id) ?? -1) >= epoch) return false;
  epochs.delete(id);
  epochs.set(id, epoch);
  const [oldest] = epochs.keys();
  if (oldest !== undefined && epochs.size > maxRemembered) epochs.delete(oldest);
  return true;
}

export type ChangeFilter = Pick<ListFilter, "workflowId" | "userId">;
