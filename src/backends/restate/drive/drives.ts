import type { Execution, ExecutionStatus, Position } from "../../../engine/execution.ts";

/** A drive that runs on this replica. */
export interface LocalDrive {
  readonly execution: Execution;
  readonly invocation: string;
  readonly status: ExecutionStatus;
  readonly position: Position;
  /** True while an attempt runs, or its result is on its way to Restate. */
  readonly isBusy: boolean;
  /** True if an interruption would cut an attempt short: its code runs, or waits for a slot. */
  readonly hasStarted: boolean;
  readonly isReleased: boolean;
  /** Aborts the attempts in flight. */
  release(reason: string): void;
}

/** The drives of this replica, by execution. */
export class LocalDrives {
  readonly #byId = new Map<string, { readonly drive: LocalDrive; readonly gone: PromiseWithResolvers<void> }>();

  /** Returns the removal. */
  add(id: string, drive: LocalDrive): () => void {
    const entry = { drive, gone: Promise.withResolvers<void>() };
    this.#byId.set(id, entry);
    return () => {
      if (this.#byId.get(id) === entry) this.#byId.delete(id);
      entry.gone.resolve();
    };
  }

  get(id: string): LocalDrive | undefined {
    return this.#byId.get(id)?.drive;
  }
  all(): LocalDrive[] {
    return [...this.#byId.values()].map(({ drive }) => drive);
  }

  /** Resolves when this replica does not drive the execution, or no longer. */
  async gone(id: string): Promise<void> {
    for (let entry = this.#byId.get(id); entry; entry = this.#byId.get(id)) await entry.gone.promise;
  }
}
