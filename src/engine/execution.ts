import type { Caller } from "../core/caller.ts";
import type { JsonText } from "../core/json.ts";
import type { SpanIds } from "../core/trace.ts";

export const executionStatuses = ["running", "suspended", "completed", "error"] as const;
export type ExecutionStatus = (typeof executionStatuses)[number];

/** An execution as it was started. Immutable. */
export interface Execution {
  readonly id: string;
  readonly workflowId: string;
  /** The output of the workflow's input schema. */
  readonly input: JsonText;
  /** `options.context` of the request. */
  readonly context: Readonly<Record<string, unknown>>;
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  /** The authenticated user who started it. */
  readonly user?: Caller["user"] | undefined;
  /** The span in which it was started. */
  readonly trace?: SpanIds | undefined;
  readonly startAt: number;
  /** The steps of the definition that it runs on. */
  readonly steps: readonly StepPlace[];
}

/** A step as definitions are compared by: in order, nested steps behind the step that contains them. */
export type StepPlace = readonly [path: string, type: string, depth: number];

/** An error as it is stored. Only the message of a `ServeError` is `shown` to every caller. */
export interface StoredError {
  readonly message: string;
  readonly shown?: boolean | undefined;
}

/** A place in a workflow. */
export interface Position {
  /** Index of the top-level step. */
  readonly stepIndex: number;
  readonly stepId: string;
}
/** A branch that waits for a resume. */
export interface ParkedBranch<V = JsonText | undefined> extends Position {
  readonly reason: string;
  readonly data?: V | undefined;
}

/**
 * A change of status. Transitions are numbered by the epoch; each is one compare-and-set on the last epoch, and there is no
 * second way to change a status. `V` is the text of a value, or in a walk a reference to it.
 */
export type Transition<V = JsonText | undefined> = { readonly at: number } & (
  | {
      readonly to: "suspended";
      /** `system`: suspended by the server, because the code does not fit or the process crashed repeatedly. */
      readonly kind?: "system";
      readonly reason: string;
      /** The branches that wait; empty for a suspension from outside. */
      readonly pending: readonly ParkedBranch<V>[];
      /** The place of the walk at a suspension from outside. */
      readonly position?: Position | undefined;
    }
  | {
      readonly to: "running";
      readonly data?: V | undefined;
      readonly stepId?: string | undefined;
      readonly by?: Caller | undefined;
      /** The span of the request that resumed it. */
      readonly trace?: SpanIds | undefined;
    }
  | { readonly to: "completed"; readonly result: V }
  | { readonly to: "error"; readonly error: StoredError }
  | { readonly to: "error"; readonly cancellation: { readonly reason: string } }
);

export interface ExecutionState {
  readonly execution: Execution;
  readonly status: ExecutionStatus;
  /** The number of the last transition; 0 before the first. */
  readonly epoch: number;
  readonly last?: Transition | undefined;
}

/** The same transition with texts in place of references. */
export function resolveTransition<V>(
  transition: Transition<V>,
  toText: (value: V) => JsonText | undefined,
): Transition {
  switch (transition.to) {
    case "running":
      return transition.data === undefined
        ? (transition as Transition)
        : { ...transition, data: toText(transition.data) };
    case "completed":
      return { ...transition, result: toText(transition.result) };
    case "suspended": {
      const pending = transition.pending.map((one) =>
        one.data === undefined ? (one as ParkedBranch) : { ...one, data: toText(one.data) },
      );
      return { ...transition, pending };
    }
    default:
      return transition;
  }
}
