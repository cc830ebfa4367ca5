import { AsyncLocalStorage } from "node:async_hooks";

/** The ids that a log record or a span can have. */
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

/** The ids of the current work, and whether its trace is recorded. */
export interface Scope extends LogIds {
  readonly sampled?: boolean | undefined;
}

const scopes = new AsyncLocalStorage<Scope | undefined>();

/** Runs a function in a scope: each record logged in it, or in async work that it starts, gets these ids. */
export const runInScope = <T>(scope: Scope, run: () => T): T => scopes.run(scope, run);

/** Runs a function without a scope, for work that is shared by many requests: a timer, a batch. */
export const runOutOfScope = <T>(run: () => T): T => scopes.run(undefined, run);

export const currentScope = (): Scope | undefined => scopes.getStore();
