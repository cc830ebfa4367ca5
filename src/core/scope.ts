import { AsyncLocalStorage } from "node:async_hooks";
import type { LogIds } from "./log.ts";

const scopes = new AsyncLocalStorage<LogIds>();

/** What is logged in here, and in whatever it starts, belongs to these. */
export const runInScope = <T>(ids: LogIds, run: () => T): T => scopes.run(ids, run);

export const currentScope = (): LogIds | undefined => scopes.getStore();
