import type { ExecutionState, Transition } from "../../../src/engine/execution.ts";

export const by = { userId: "ada", user: { id: "ada" } };
/** Every kind of transition; `undefined` is the start. */
export const transitions: readonly [string, Transition][] = [
  ["suspend", { at: 2, to: "suspended", reason: "x", pending: [] }],
  ["resume", { at: 2, to: "running" }],
  ["retry", { at: 2, to: "running", isRetry: true, by }],
  ["complete", { at: 2, to: "completed", result: "1" }],
  ["fail", { at: 2, to: "error", error: { message: "x" } }],
  ["cancel", { at: 2, to: "error", cancellation: { reason: "x" } }],
];
export const start = {
  execution: { id: "e", workflowId: "w", input: "{}", context: {}, startAt: 1, steps: [] },
} as const;
export const states: readonly [string, ExecutionState][] = [
  ["start", { ...start, status: "running", epoch: 0 }],
  ...transitions.map(([name, last]): [string, ExecutionState] => [name, { ...start, status: last.to, epoch: 1, last }]),
];
