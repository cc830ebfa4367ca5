import type { Caller } from "../core/caller.ts";
import type { JsonText } from "../core/json.ts";
import type { SpanIds } from "../core/trace.ts";

export const executionStatuses = ["running", "suspended", "completed", "error"] as const;
export type ExecutionStatus = (typeof executionStatuses)[number];

/** What began: written once, never changed. */
export interface Execution {
  readonly id: string;
  readonly workflowId: string;
  /** The output of the workflow's input schema. */
  readonly input: JsonText;
  /** `options.context` of the request. */
  readonly context: Readonly<Record<string, unknown>>;
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  /** The authenticated user who began it. */
  readonly user?: Caller["user"] | undefined;
  /** The span that it began in. */
  readonly trace?: SpanIds | undefined;
  readonly startAt: number;
  /** The steps of the definition that it runs on. */
  readonly steps: readonly StepPlace[];
}

/** A step as definitions are compared by: in order, nested ones behind the one that they stand in. */
export type StepPlace = readonly [path: string, type: string, depth: number];

/** An error as it is stored. Only a `ServeError`'s message may be shown to everybody. */
export interface Fault {
  readonly message: string;
  readonly shown?: boolean | undefined;
}

/** Where a suspended execution stands. */
export interface Position {
  /** Index of the top-level step. */
  readonly stepIndex: number;
  readonly stepId: string;
}
/** A branch that waits for a resume. */
export interface ParkedBranch extends Position {
  readonly reason: string;
  readonly data?: JsonText | undefined;
}

/**
 * A change of status. They are numbered; each is one compare-and-set on the number of the last one seen, and there is no
 * second way to change a status.
 */
export type Transition = { readonly at: number } & (
  | {
      readonly to: "suspended";
      readonly reason: string;
      /** The branches that wait; empty when somebody asked for the suspension from outside. */
      readonly pending: readonly ParkedBranch[];
      /** Of a suspension from outside: where the walk stood. */
      readonly position?: Position | undefined;
    }
  | {
      readonly to: "running";
      readonly data?: JsonText | undefined;
      readonly stepId?: string | undefined;
      readonly by?: Caller | undefined;
      /** The span that it was resumed in. */
      readonly trace?: SpanIds | undefined;
    }
  | { readonly to: "completed"; readonly result: JsonText | undefined }
  | { readonly to: "error"; readonly error: Fault }
  | { readonly to: "error"; readonly cancellation: { readonly reason: string } }
);

export interface ExecutionState {
  readonly execution: Execution;
  readonly status: ExecutionStatus;
  /** The number of the last transition; 0 before the first. */
  readonly epoch: number;
  readonly last?: Transition | undefined;
}
