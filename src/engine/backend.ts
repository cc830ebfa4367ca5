import type { Caller } from "../core/caller.ts";
import type { JsonText } from "../core/json.ts";
import type { Logger } from "../core/log.ts";
import type { SpanIds } from "../core/trace.ts";
import type { Conversations } from "./conversations.ts";
import type { LiveEvent, StoredEvent } from "./events.ts";
import type { Execution, ExecutionState, ExecutionStatus, StepPlace } from "./execution.ts";
import type { Drive } from "./walk/walk.ts";

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
  events(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<StoredEvent | LiveEvent>;
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
interface OpenBackend {
  readonly engine: Engine;
  readonly conversations: Conversations;
}
interface BackendParts {
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
