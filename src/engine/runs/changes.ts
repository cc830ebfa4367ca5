import type { ExecutionChange, ListFilter } from "../backend.ts";
import type { ExecutionState } from "../execution.ts";
import { kindOf } from "../suspension.ts";

/** The most changes that wait for a reader. */
const mostWaiting = 1_000;

/** The most executions whose last epoch is remembered, to drop a change that is published again. */
const mostRemembered = 1_000;

/** The readers of starts and transitions. Without one, a change costs nothing. */
export class Changes {
  readonly #readers = new Set<(change: ExecutionChange) => void>();
  readonly #epochs: Map<string, number> | undefined;

  /** `isRepeated`: a change may be published twice, by the call that makes it and by the run that stores it. */
  constructor({ isRepeated = false }: { isRepeated?: boolean } = {}) {
    this.#epochs = isRepeated ? new Map() : undefined;
  }

  publish({ execution: { id, workflowId, userId }, status, epoch, last }: ExecutionState): void {
    if (this.#readers.size === 0) return;
    if (this.#epochs && !remember(this.#epochs, id, epoch)) return;
    const change: ExecutionChange = { executionId: id, workflowId, userId, status, kind: kindOf(last) };
    for (const push of this.#readers) push(change);
  }

  /** Listens from the call on. Ends when the reader is too slow, or with the signal. */
  open({ workflowId, userId }: ChangeFilter, signal: AbortSignal): AsyncGenerator<ExecutionChange> {
    const waiting: ExecutionChange[] = [];
    let isOver = signal.aborted;
    let wake: (() => void) | undefined;
    const push = (change: ExecutionChange): void => {
      if (workflowId !== undefined && change.workflowId !== workflowId) return;
      if (userId !== undefined && (change.userId ?? null) !== userId) return;
      waiting.push(change);
      if (waiting.length > mostWaiting) end();
      wake?.();
    };
    const end = (): void => {
      isOver = true;
      this.#readers.delete(push);
      signal.removeEventListener("abort", end);
      wake?.();
    };
    if (!isOver) {
      this.#readers.add(push);
      signal.addEventListener("abort", end, { once: true });
    }
    return read();

    async function* read(): AsyncGenerator<ExecutionChange> {
      try {
        for (;;) {
          if (isOver) return; // a reader that has missed one change cannot use the others
          const change = waiting.shift();
          if (change) yield change;
          else await new Promise<void>((resolve) => (wake = resolve));
        }
      } finally {
        end();
      }
    }
  }
}

/** Returns false for an epoch that is known. The oldest entries are dropped. */
function remember(epochs: Map<string, number>, id: string, epoch: number): boolean {
  if ((epochs.get(id) ?? -1) >= epoch) return false;
  epochs.delete(id);
  epochs.set(id, epoch);
  const [oldest] = epochs.keys();
  if (epochs.size > mostRemembered) epochs.delete(oldest!);
  return true;
}

export type ChangeFilter = Pick<ListFilter, "workflowId" | "userId">;
