import { existsSync } from "node:fs";
import type { Engine } from "../../engine/contract/engine.ts";
import type { ExecutionState, Transition } from "../../engine/execution.ts";
import { toCommandChange } from "../../engine/runs/run-port.ts";
import { lock } from "./file/lock.ts";
import { StoreError, toStoreError } from "./file/sqlite-error.ts";
import { Store } from "./store/store.ts";
import type { ListedExecution, NewestFilter } from "./store/stored-state.ts";
import { isLegal } from "../../engine/rules/transitions.ts";

/** The executions of a data file that no server uses. Nothing of them runs. */
export interface OfflineStore extends Pick<Engine, "history" | "rowText"> {
  /** The newest executions first. */
  list(filter: NewestFilter): ListedExecution[];
  state(id: string): ExecutionState | undefined;
  /** Resolves to false when the execution ended. */
  cancel(id: string, reason: string): boolean;
  close(): void;
}

/** Opens a data file for its operator. Throws when it does not exist, or a server uses it. */
export function openOffline(path: string): OfflineStore {
  if (!existsSync(path)) throw new StoreError(`${path} does not exist`, "pass the file with --data");
  let unlock: (() => void) | undefined;
  let store: Store;
  try {
    unlock = lock(path);
    store = new Store(path, "normal");
  } catch (error) {
    unlock?.();
    throw toStoreError(path, error);
  }
  return {
    list: (filter) => store.newest(filter),
    state: (id) => store.state(id),
    history: (id) => store.journals.history(id),
    async rowText(id, row) {
      const number = store.journals.numberOf(id);
      return number === undefined ? undefined : store.journals.text(number, row);
    },
    cancel(id, reason) {
      const state = store.state(id);
      const next: Transition = { at: Date.now(), to: "error", cancellation: { reason } };
      if (!state || !isLegal(state, next)) return false;
      const { number, epoch } = state;
      const change = toCommandChange(store.newRow(), next, { epoch, seq: store.journals.lastSeq(number) + 1 });
      return store.transaction(() => store.save(state, change, () => undefined)) !== undefined;
    },
    close() {
      store.close();
      unlock?.();
    },
  };
}
