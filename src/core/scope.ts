import { AsyncLocalStorage } from "node:async_hooks";

/** What a record of the log, or a span, may belong to. */
export const logIds = [
  "agentId",
  "workflowId",
  "executionId",
  "stepId",
  "userId",
  "conversationId",
  "requestId",
  "traceId",
  "spanId",
] as const;
export type LogIds = { readonly [K in (typeof logIds)[number]]?: string | undefined };

const scopes = new AsyncLocalStorage<LogIds | undefined>();

/** What is logged in here, and in whatever it starts, belongs to these. */
export const runInScope = <T>(ids: LogIds, run: () => T): T => scopes.run(ids, run);

/** What is started in here serves many: a timer, a batch. It belongs to nobody who happens to start it. */
export const runOutOfScope = <T>(run: () => T): T => scopes.run(undefined, run);

export const currentScope = (): LogIds | undefined => scopes.getStore();
