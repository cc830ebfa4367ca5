import type { Caller } from "../core/caller.ts";
import type { JsonText } from "../core/json.ts";
import type { Logger } from "../core/log.ts";
import type { SpanIds } from "../core/trace.ts";
import type { Conversations } from "./conversations.ts";

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

/** What happened. Its number and its time follow from its place in the journal. */
export interface Happening {
  readonly type: string;
  readonly from?: string;
  readonly [key: string]: unknown;
}
/** What happened, as readers see it. `seq` and `timestamp` are functions of the journal. */
export interface LifecycleEvent extends Happening {
  readonly executionId: string;
  readonly seq: number;
  readonly timestamp: string;
}
/** An event of the author's own: live only, without a `seq`. */
export interface LiveEvent {
  readonly type: string;
  readonly executionId: string;
  readonly timestamp: string;
  readonly from: string;
  readonly [key: string]: unknown;
}

/**
 * One walk of one execution. It is synchronous and a function of the journal: the same entries and transitions in the same
 * order give the same turns. Nothing of a turn may be seen or started before what it follows from is durable.
 */
export interface Walk {
  /** The entries that somebody waits for. What else ends is dropped. */
  readonly waiting: ReadonlyMap<string, unknown>;
  /** The step in flight, else the next one. */
  position(): Position;
  /** Begins, or takes in the next thing in the order of the journal. */
  next(taken?: Taken): Turn;
  /** The transition that the last turn asked for has been made. A backend in which somebody else may be first asks first. */
  moved(): void;
  /** The backend lets it go. */
  leave(): void;
}
/** How an entry ended, or a transition made by somebody else. */
export type Taken = { readonly key: string; readonly settled: Settled } | { readonly signal: Transition };
/** What follows from what was taken in. */
export interface Turn {
  readonly events: readonly Happening[];
  readonly starts: readonly Start[];
  /** What the branches call for: all is done, or only parked branches remain. */
  readonly transition?: Transition | undefined;
}
/** An entry to start, `delay` milliseconds after it may be. It says once, and never at once, how it ended. */
export interface Start {
  readonly key: string;
  readonly delay: number;
  run(ended: (settled: Settled) => void): void;
}
export type Drive = (execution: Execution, live: (event: LiveEvent) => void) => Walk;

/** The code of a workflow, as a backend needs it. */
export interface Program {
  readonly steps: readonly StepPlace[];
  readonly drive: Drive;
  /** What becomes of an execution that was running when the process died. */
  readonly recovery: "resume" | "fail";
}

/** What a backend is to everything above it. */
export interface Engine {
  /**
   * Continues what was running when the process ended, if its code is still the same. `mayRun` is asked once all is ours, and
   * before anything runs; what it throws ends the opening.
   */
  open(programOf: (workflowId: string) => Program | undefined, mayRun?: () => Promise<unknown>): Promise<void>;
  /** Durable when it resolves. One run per id: `created` is false for all but the first. */
  begin(execution: Execution, program: Program): Promise<{ created: boolean }>;
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
  resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false>;
  cancel(id: string, reason: string): Promise<ExecutionState | false>;
  /** The steps that have begun; undefined while a walk holds the execution, which goes on with the code that it has. */
  begun(id: string): Promise<ReadonlySet<string> | undefined>;
  /** How many executions of a workflow are being driven here. */
  running(workflowId: string): number;
  /** What else writes to this backend ends `beside`, within the same time. */
  close(options: { drainMs: number; beside?: Promise<unknown> }): Promise<void>;
}
/** Where executions and conversations live; as it stands in a config, before it is opened. */
export interface Backend {
  readonly type: string;
  /** What it was described with; two of one type are the same when these are. */
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly open: (parts: BackendParts) => OpenBackend;
  /** What there is, without opening it; throws what is wrong with it. */
  readonly inspect?: (place: Pick<BackendParts, "root" | "file">) => Inspection;
}
/** A store, as somebody from outside finds it. */
export interface Inspection {
  readonly place: string;
  /** Undefined when there is nothing yet. */
  readonly bytes?: number | undefined;
  /** Whether a server is using it right now. */
  readonly isInUse: boolean;
  readonly executions: Readonly<Partial<Record<ExecutionStatus, number>>>;
}
export interface OpenBackend {
  readonly engine: Engine;
  readonly conversations: Conversations;
}
export interface BackendParts {
  /** The folder of the config. */
  readonly root: string;
  /** A file that was asked for on the command line or in the environment. */
  readonly file?: string | undefined;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  readonly logger: Logger;
}
export interface Resume {
  readonly data?: JsonText | undefined;
  readonly stepId?: string | undefined;
  readonly by?: Caller | undefined;
  readonly trace?: SpanIds | undefined;
}
export interface ListFilter {
  readonly workflowId: string;
  readonly status?: ExecutionStatus | undefined;
  /** Those that this user began. */
  readonly userId?: string | undefined;
  readonly limit: number;
  /** Those that began before this one. */
  readonly before?: { readonly startAt: number; readonly id: string } | undefined;
}
