import type { Caller } from "../core/caller.ts";
import type { JsonText } from "../core/json.ts";
import type { SpanIds } from "../core/trace.ts";
import type { StepTraits } from "./definition/step-traits.ts";

export const executionStatuses = ["running", "suspended", "completed", "error"] as const;
export type ExecutionStatus = (typeof executionStatuses)[number];

/** An execution as it was started. Immutable. */
export interface Execution {
  readonly id: string;
  /** Of a turn of an agent: an id that no workflow has (`toTurnsId`). */
  readonly workflowId: string;
  /** The output of the workflow's input schema. */
  readonly input: JsonText;
  /** `options.context` of the request. */
  readonly context: Readonly<Record<string, unknown>>;
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  /** The key that it shares the `concurrency.limit` of its workflow with; undefined without such a limit. Not shown to clients. */
  readonly concurrencyKey?: string | undefined;
  /** The authenticated user who started it. */
  readonly user?: Caller["user"] | undefined;
  /** Started by code of the server without a user, or by a schedule: its steps see all executions. Not shown to clients. */
  readonly begunBy?: "server" | undefined;
  /** The span in which it was started. */
  readonly trace?: SpanIds | undefined;
  readonly startAt: number;
  /**
   * The original of a fork, the index of its first own step, and the start time of the first copied step, which forks of
   * former versions lack.
   */
  readonly fork?: { readonly from: string; readonly stepIndex: number; readonly startAt?: number } | undefined;
  /** The execution whose step has started it. `cancels`: a cancel of the parent cancels this one. */
  readonly parent?: { readonly id: string; readonly cancels?: true | undefined } | undefined;
  /** The steps of the definition that it runs on. */
  readonly steps: readonly StepPlace[];
}

/**
 * A step of a stored definition: in order, nested steps behind the step that contains them. Path, type and depth are compared.
 * Executions that were stored by an older version have no traits: see `describeSteps`.
 */
export type StepPlace = readonly [path: string, type: string, depth: number, mark?: Mark, traits?: StepTraits];
/** A step whose traits are known. */
export type DescribedStep = readonly [path: string, type: string, depth: number, mark: Mark, traits: StepTraits];
type Mark = "redacted" | null;

/** Adds the traits of steps that were stored without them. A step of an unknown type is a leaf. */
export function describeSteps(
  steps: readonly StepPlace[],
  find: (path: string, type: string) => StepTraits | undefined,
): readonly DescribedStep[] {
  return steps.map(([path, type, depth, mark = null, traits = find(path, type) ?? { shape: "leaf" }]) => [
    path,
    type,
    depth,
    mark,
    traits,
  ]);
}

/** An error as it is stored. Only the message of a `ServeError` is `shown` to every caller. */
export interface StoredError {
  readonly message: string;
  readonly shown?: boolean | undefined;
  /** The status of a `ServeError` from 400 to 499 that a step threw: the workflow refuses the request. */
  readonly status?: number | undefined;
}

/** A place in a workflow. */
export interface Position {
  /** Index of the top-level step. */
  readonly stepIndex: number;
  readonly stepId: string;
}
/** A branch that waits: for a person who resumes it, for a time, or for an event. */
export interface ParkedBranch<V = JsonText | undefined> extends Position {
  /** What it waits for. @default "person" */
  readonly kind?: "person" | "timer" | "event" | undefined;
  /** Key of the wake-up row. Suspensions of the first release have none in the store: it is only compared. */
  readonly key: string;
  readonly reason: string;
  /** The time at which the wait began. Executions that were suspended by an older version have none. */
  readonly at?: number | undefined;
  readonly data?: V | undefined;
  /** The end time of the wait, if it has one. */
  readonly due?: Due | undefined;
  readonly event?: EventFilter | undefined;
  /** The longest wait without a suspension, in milliseconds; 0 for a person. */
  readonly inlineMs?: number | undefined;
  /** True if a resume may end a wait that is not for a person. */
  readonly isSkippable?: true | undefined;
}

/** A time at which something happens. */
export interface Due {
  /** In milliseconds since 1970. */
  readonly at: number;
  /** The end of a duration. Within the life of a process it is measured by the monotonic clock, so it does not follow jumps. */
  readonly isElapsed?: true | undefined;
}

/** The events that a branch waits for. */
export interface EventFilter {
  /** The code path of the step: the data must match its schema. */
  readonly step: string;
  readonly name: string;
  /** @default "" */
  readonly key?: string | undefined;
  /** Events that are older than the execution count as well. */
  readonly isAnyAge?: true | undefined;
  /** Only events that were sent by code. */
  readonly isFromCode?: true | undefined;
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
      /** The first of the branches that wait; empty for a suspension by a command. */
      readonly pending: readonly ParkedBranch<V>[];
      /** The kinds of the branches that wait, each once; the first branch's kind first. @default only `person` */
      readonly kinds?: readonly ("person" | "timer" | "event")[];
      /** The number of branches that wait, if not all of them are in `pending`. */
      readonly pendingCount?: number;
      /** The first end time of the waits, for each clock. */
      readonly wake?: readonly Due[];
      /** The events that the branches wait for. */
      readonly events?: readonly EventFilter[];
      /** The walk's position when a command suspended it. */
      readonly position?: Position | undefined;
    }
  | {
      readonly to: "running";
      /** A retry of a failed execution; else a resume, or a wake. */
      readonly isRetry?: true;
      /** True if a time or an event ended a wait. */
      readonly isWake?: true;
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

/** Returns true for the retry of a failed execution. */
export const isRetry = (next: Transition): next is Transition & { readonly to: "running" } =>
  next.to === "running" && next.isRetry === true;

export interface ExecutionState {
  readonly execution: Execution;
  readonly status: ExecutionStatus;
  /** The number of the last transition; 0 before the first. */
  readonly epoch: number;
  readonly last?: Transition | undefined;
  /** The caller of the last retry. */
  readonly retriedBy?: Caller | undefined;
}

/** Returns a transition with texts in place of references. */
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
