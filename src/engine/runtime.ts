import type { Caller } from "../core/caller.ts";
import type { Logger } from "../core/log.ts";
import type { OutputOf, Schema } from "../core/schema.ts";
import type { Execution, ExecutionStatus } from "./execution.ts";
import type { AttemptRecords } from "./contract/records.ts";
import type { Agent, Prompt, WorkflowReference } from "./definition/reference.ts";
import type { Suspension, SuspensionKind } from "./suspension.ts";

/**
 * Starts workflows, asks agents and sends events from code, without HTTP. It acts for a user, or for the server itself.
 * A runtime sees the executions of its user; without a user, those without one. The runtime of the server itself sees all
 * executions. So does a step if the server itself or a schedule has started its execution.
 * Each call waits until the store is open. Errors are those of the HTTP routes: a `ServeError` with the same status.
 */
export interface Runtime<StartExtra = unknown, AskExtra = unknown> {
  /** Starts an execution. It is stored when the promise resolves. Throws 400 for a wrong input, 404 for an unknown workflow. */
  start<Start, Result>(
    workflow: WorkflowReference<Start, Result>,
    input: Start,
    options?: StartOptions & StartExtra,
  ): Promise<ExecutionHandle<Result>>;
  start<Id extends WorkflowId>(
    workflowId: Id,
    input: StartOf<Id>,
    options?: StartOptions & StartExtra,
  ): Promise<ExecutionHandle<ResultOf<Id>>>;
  /** Starts an execution and waits for `result()`. */
  execute<Start, Result>(
    workflow: WorkflowReference<Start, Result>,
    input: Start,
    options?: StartOptions & StartExtra,
  ): Promise<ExecutionOutcome<Result>>;
  execute<Id extends WorkflowId>(
    workflowId: Id,
    input: StartOf<Id>,
    options?: StartOptions & StartExtra,
  ): Promise<ExecutionOutcome<ResultOf<Id>>>;
  /**
   * Asks an agent. Returns its text, or the object that `schema` describes. In a step, a question with an answer is not asked
   * again after a crash, and a question must be awaited: it fails when the step ends.
   */
  ask<S extends Schema | undefined = undefined>(
    agent: Agent | AgentId,
    prompt: Prompt,
    options?: QuestionOptions<S> & AskExtra,
  ): Promise<OutputOf<S, string>>;
  /** Sends an event to the executions that wait for it, now or later. It is stored when the promise resolves. */
  send(event: EventToSend): Promise<{ id: string }>;
  readonly executions: Executions;
  readonly conversations: RuntimeConversations;
  /**
   * Returns a runtime that sees all executions, and takes `as`. Without `as` it acts for the same user. In a step, children,
   * answers and events are those of the step.
   */
  asServer(): Runtime<StartExtra & ActingAs, AskExtra & ActingAs>;
}
/** The user to whom an execution or a question belongs. @default the user of the runtime */
export interface ActingAs {
  as?: RuntimeUser;
}

/** The workflows and agents of a project, by id. `agentserve types` adds them. */
export interface Registry {}
type Registered<Kind extends string> = Kind extends keyof Registry ? Registry[Kind] : {};
type IdOf<All> = [keyof All] extends [never] ? string : keyof All & string;
/** The id of a workflow: one of the registry, or any text without one. */
export type WorkflowId = IdOf<Registered<"workflows">>;
/** The id of an agent: one of the registry, or any text without one. */
export type AgentId = IdOf<Registered<"agents">>;
type RegisteredAs<Id> = Id extends keyof Registered<"workflows"> ? Registered<"workflows">[Id] : unknown;
/** The input type of a registered workflow. */
export type StartOf<Id> = RegisteredAs<Id> extends WorkflowReference<infer Start, unknown> ? Start : unknown;
/** The result type of a registered workflow. */
export type ResultOf<Id> = RegisteredAs<Id> extends WorkflowReference<never, infer Result> ? Result : unknown;

/** A runtime of the server itself. `as` names the user whom an execution or a question belongs to. @default no user */
export type SystemRuntime = Runtime<ActingAs, ActingAs>;
/** The runtime of a step: it starts children. */
export type StepRuntime = Runtime<ChildOptions>;
export interface ChildOptions {
  /** A child has an id of its own. */
  executionId?: never;
  /** The name of the child in this step. @default its number, in the order of the calls */
  key?: string;
  /** Cancels the child when the execution of this step is cancelled. @default it continues */
  cancelWith?: "parent";
}
/** A user, as an authentication provider returns it. */
export interface RuntimeUser {
  id: string | number;
  [key: string]: unknown;
}

export interface StartOptions {
  /** The id of the execution. Throws 409 if there is one with this id. @default a new id */
  executionId?: string;
  conversationId?: string;
  /** The values that steps find in `context`. @default {} */
  context?: Record<string, unknown>;
}
export interface QuestionOptions<S extends Schema | undefined = undefined> {
  /** The schema of the answer. @default the answer is text */
  schema?: S;
  /** The conversation: the agent gets its messages, and the question and the answer are added. @default none */
  conversationId?: string;
  /** The values that instructions, hooks and tools find in `context`. @default {} */
  context?: Record<string, unknown>;
  /** Ends the call when it is aborted. */
  signal?: AbortSignal;
}
/** An event for executions that wait for its name and key. */
export interface EventToSend {
  name: string;
  /** @default "" */
  key?: string;
  data?: unknown;
  /**
   * A second event of code with this id and the same content has no effect. 1 to 1,024 visible ASCII characters, such as an
   * `idempotencyKey`. @default a new id
   */
  id?: string;
}

/** An execution that code has started or found. */
export interface ExecutionHandle<Result = unknown> {
  readonly executionId: string;
  /** Waits until the execution is suspended or ended. It does not wait through a suspension. */
  result(): Promise<ExecutionOutcome<Result>>;
  state(): Promise<ExecutionView>;
  /** Continues a suspended execution. It is stored when the promise resolves; `result()` then waits for what follows. */
  resume(data?: unknown, options?: { stepId?: string }): Promise<void>;
  cancel(reason?: string): Promise<void>;
}

/** The end of an execution, or its suspension. */
export type ExecutionOutcome<Result = unknown> = { readonly executionId: string } & (
  | { readonly status: "completed"; readonly result: Result }
  | { readonly status: "suspended"; readonly suspension: Suspension }
  | { readonly status: "error"; readonly error: string; readonly cancellation?: Cancellation }
);
export interface Cancellation {
  readonly cancelledAt: string;
  readonly reason: string;
}

/** The executions that a runtime sees. */
export interface Executions {
  /** Returns an execution. Throws 404 if there is none with this id, or if it is not visible. */
  get(executionId: string): Promise<ExecutionHandle>;
  /**
   * Lists executions, newest first. Long values are replaced by markers, as in `GET /executions`. Throws 403 for the `userId` of
   * another user, unless the runtime sees all executions.
   */
  list(filter?: ExecutionFilter): Promise<{ items: ExecutionView[]; nextCursor: string | null }>;
  /**
   * Starts a new execution with the results of another one, for the same user. `authorize` is not asked. In a step, a fork that
   * was started before a crash or a retry is not started again. Throws 404 as `get` does, and 409 if the other one is running.
   */
  fork(executionId: string, options?: ForkOptions): Promise<ExecutionHandle>;
}
export interface ForkOptions {
  /** The top-level step that the fork begins with. @default the step that failed or waits, else the first */
  fromStep?: string | undefined;
  /** Another input. The fork then begins with the first step. @default the original one */
  input?: unknown;
  /** The id of the fork. Throws 409 if there is an execution with this id. @default a new id */
  executionId?: string | undefined;
}
/** The stored conversations that a runtime may see: its user's, or all for the server itself. */
export interface RuntimeConversations {
  /** Lists 50 conversations of a user with an agent, newest first. Throws 403 for a user that the runtime does not act for. */
  list(
    agent: Agent | AgentId,
    options?: { userId?: string; cursor?: string },
  ): Promise<{ items: ConversationSummary[]; nextCursor: string | null }>;
  /** Reads the last 100 messages, or those before one of them. Throws 404 if there is no such conversation. */
  get(
    agent: Agent | AgentId,
    conversationId: string,
    options?: { userId?: string; before?: string },
  ): Promise<ConversationWithMessages>;
  /**
   * Adds a message of a person, when the turns before it ended. It is stored when the promise resolves. A step that runs
   * again adds the same message.
   */
  append(
    agent: Agent | AgentId,
    conversationId: string,
    options: { text: string; author: { id: string | number; name?: string }; userId?: string },
  ): Promise<{ messageId: string }>;
  /** Deletes a conversation, and ends its turns. Throws 404 if there is none. */
  delete(agent: Agent | AgentId, conversationId: string, options?: { userId?: string }): Promise<void>;
}
/** A conversation, as the routes show it. */
export interface ConversationSummary {
  id: string;
  title: string;
  createdAt: string | null;
  updatedAt: string;
  messageCount: number;
  /** True if it is one of the user that the runtime acts for. */
  isOwn: boolean;
  running: boolean;
}
export interface ConversationWithMessages extends Omit<ConversationSummary, "running"> {
  /** The messages, oldest first, as `useChat` takes them. */
  messages: { id: string; role: string; parts: unknown[]; metadata?: unknown }[];
  hasMore: boolean;
  running: { messageId: string } | null;
}
/** The executions of a list: those that fit every field. */
export interface ExecutionFilter {
  workflowId?: string;
  status?: ExecutionStatus | readonly ExecutionStatus[];
  /** Suspended for any of these reasons. */
  kind?: SuspensionKind | readonly SuspensionKind[];
  userId?: string;
  /** The beginning of the id. */
  id?: string;
  cancelled?: boolean;
  /** The earliest and the latest start. */
  since?: Date;
  until?: Date;
  /** From 1 to 200. @default 50 */
  limit?: number;
  /** The `nextCursor` of the page before, with the same filter. */
  cursor?: string;
}

/** The state of an execution, as the state route and the list show it. */
export interface ExecutionView {
  executionId: string;
  workflowId: string;
  status: ExecutionStatus;
  startAt: string;
  endAt: string | null;
  input: unknown;
  context: Record<string, unknown>;
  suspension?: Suspension;
  result?: unknown;
  error?: string;
  cancellation?: Cancellation;
  forkedFrom?: string;
  /** The caller of the last retry. Shown only to those who may see the values of steps. */
  retriedBy?: Caller;
}

/** The step for which a runtime acts. */
export interface StepCaller {
  readonly execution: Execution;
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
  /** Settles like `work`, which waits for another execution. Meanwhile the step may have no slot. */
  readonly waitOutside: <T>(work: () => Promise<T>) => Promise<T>;
  /** The attempt id. A repetition after a crash has the same one, a retry has another one. */
  readonly attemptId: string;
  /** Opens the recorded results of the attempt whose names begin with a scope. */
  readonly openRecords: (scope: string) => Promise<AttemptRecords>;
  /** Aborted when the attempt ended, in whichever way. */
  readonly endSignal: AbortSignal;
  readonly logger: Logger;
}
export type CreateStepRuntime = (caller: StepCaller) => StepRuntime;
