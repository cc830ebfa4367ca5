import type { Caller } from "../core/caller.ts";
import type { JsonText } from "../core/json.ts";
import type { Logger } from "../core/log.ts";

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
  readonly startAt: number;
  /** The ordered paths and types of the definition that it began with. */
  readonly steps: readonly (readonly [path: string, type: string])[];
}

/** An error as it is stored. Only a `ServeError`'s message may be shown to everybody. */
export interface Fault {
  readonly message: string;
  readonly shown?: boolean | undefined;
}

/** How an entry of the journal ended. */
export type Settled = { readonly at: number } & (
  | { readonly value: JsonText | undefined }
  | { readonly error: Fault }
  | { readonly suspended: { readonly reason: string; readonly data?: JsonText | undefined } }
);

/** Where a suspended execution stands. */
export interface Position {
  /** Index of the top-level step. */
  readonly stepIndex: number;
  readonly stepId: string;
}
/** A branch that waits for a resume. */
export interface Parked extends Position {
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
      readonly pending: readonly Parked[];
      /** Of a suspension from outside: where the drive stood when it saw that; until then, where it seemed to stand. */
      readonly position?: Position | undefined;
    }
  | {
      readonly to: "running";
      readonly data?: JsonText | undefined;
      readonly stepId?: string | undefined;
      readonly by?: Caller | undefined;
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

/** What happened, in the order of the journal. `seq` and `timestamp` are functions of it, so a replay repeats them. */
export interface LifecycleEvent {
  readonly type: string;
  readonly executionId: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly from?: string;
  readonly [key: string]: unknown;
}
/** An event of the author's own: live only, without a `seq`. */
export interface LiveEvent {
  readonly type: string;
  readonly executionId: string;
  readonly timestamp: string;
  readonly from: string;
  readonly [key: string]: unknown;
}

/** One drive of one execution, as the interpreter sees it. */
export interface Run {
  readonly execution: Execution;
  /**
   * Registers an entry. `attempt` runs inside `select`, `delay` milliseconds from now at the earliest, once the journal is
   * used up and the key is still waited for. It never rejects.
   */
  start(key: string, attempt: () => Promise<Settled>, delay?: number): void;
  /**
   * The next thing in the order of the journal: an entry that is waited for, or a transition made by somebody else.
   * Undefined when the backend lets the drive go: the execution is suspended, nothing is in flight, the journal has it all.
   */
  select(waiting: ReadonlyMap<string, unknown>, position: () => Position): Promise<Selected | undefined>;
  /** One compare-and-set. Its event is stored only if it won. */
  transition(next: Transition, event: LifecycleEvent): Promise<boolean>;
  /** Stored with the next entry. */
  emit(event: LifecycleEvent): void;
  /** Sent to whoever listens now. */
  live(event: LiveEvent): void;
}
export type Selected = { readonly key: string; readonly settled: Settled } | { readonly signal: Transition };
export type Drive = (run: Run) => Promise<void>;

/** What a backend is to everything above it. */
export interface Engine {
  /** Continues what was running when the process ended. */
  open(drive: (execution: Execution) => Drive | undefined): Promise<void>;
  /** Durable when it resolves. One run per id: `created` is false for all but the first. */
  begin(execution: Execution, drive: Drive): Promise<{ created: boolean }>;
  state(id: string): Promise<ExecutionState | undefined>;
  list(filter: ListFilter): Promise<ExecutionState[]>;
  /** The next suspension or end after a transition. */
  settled(id: string, afterEpoch: number, signal?: AbortSignal): Promise<ExecutionState>;
  /**
   * Stored, then live, from `afterSeq` on; ends after the event of the next suspension or end. It listens from the call on,
   * so whoever calls it before `begin` misses nothing.
   */
  events(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<LifecycleEvent | LiveEvent>;
  /** These three answer the new state, or false when somebody else was first or the status does not allow it. */
  suspend(id: string, reason: string): Promise<ExecutionState | false>;
  resume(id: string, epoch: number, how: Resume, drive: Drive): Promise<ExecutionState | false>;
  cancel(id: string, reason: string): Promise<ExecutionState | false>;
  /** How many executions of a workflow are being driven here. */
  running(workflowId: string): number;
  close(options: { drainMs: number }): Promise<void>;
}
/** Where executions live; as it stands in a config, before it is opened. */
export interface Backend {
  readonly type: string;
  readonly open: (parts: BackendParts) => Engine;
}
export interface BackendParts {
  /** The folder of the config. */
  readonly root: string;
  /** A file that was asked for on the command line or in the environment. */
  readonly file?: string | undefined;
  readonly sseBufferBytes: number;
  readonly logger: Logger;
}
export interface Resume {
  readonly data?: JsonText | undefined;
  readonly stepId?: string | undefined;
  readonly by?: Caller | undefined;
}
export interface ListFilter {
  readonly workflowId: string;
  readonly status?: ExecutionStatus | undefined;
  readonly limit: number;
  /** Those that began before this one. */
  readonly before?: { readonly startAt: number; readonly id: string } | undefined;
}
