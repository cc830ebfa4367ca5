import type { Authorize } from "../../core/access/authorize.ts";
import type { Schema } from "../../core/schema.ts";
import type { Agent, Prompt, WorkflowReference } from "./reference.ts";
import type { AskOptions, StepContext } from "./step-context.ts";
import type { EventFilter, ParkedBranch, StoredError } from "../execution.ts";
import type { Until } from "./until.ts";
import type { StepTraits } from "./step-traits.ts";
import type { EntrySuffix } from "../walk/journal-keys.ts";
import type { Value } from "../walk/value.ts";
import type { AttemptPlan, LoopStart, ResumeInput } from "../walk/decision.ts";

/** The retry policy of a step. Delays are in milliseconds, and survive a restart. */
export interface Retry {
  /** The number of attempts, the first one included: a whole number from 1, or `Infinity`. */
  attempts: number;
  /** The delay before the second attempt. @default 0 */
  delay?: number;
  /** The factor by which the delay grows with each further attempt. @default 1 */
  backoff?: number;
  /** The longest delay. @default no limit */
  maxDelay?: number;
  /**
   * The variable part of a delay, from 0 to 1: executions that failed together do not retry together.
   * `0.5` waits for half of the delay at least. @default 0
   */
  jitter?: number;
}

/** The limit of concurrent executions of a workflow. */
export interface ConcurrencyOptions<Input = unknown> {
  /** Max executions that run at the same time; with `key`, of each key. Further ones wait for their turn. */
  limit: number;
  /**
   * Returns the key of an execution, a text of at most 256 characters. It is called once, when the execution starts.
   * @default one limit for the whole workflow
   */
  key?: (call: ConcurrencyContext<Input>) => string;
}
/** The argument of a concurrency key. */
export interface ConcurrencyContext<Input = unknown> {
  /** The workflow's input, as steps get it. */
  readonly input: Input;
  readonly userId: string | undefined;
  readonly conversationId: string | undefined;
  /** `options.context`, and the keys `userId`, `conversationId` and `user` when known. */
  readonly context: ReadonlyMap<string, unknown>;
}

/** A step of a workflow: its description, the user's code in it (`codes`), and its order (`run`). */
export interface Step extends StepTraits {
  /** The name of the step type, such as `andThen`. Only shown: the engine reads the traits. */
  readonly type: string;
  readonly id: string;
  readonly name: string;
  readonly purpose: string;
  readonly retry?: Retry | undefined;
  /** The time limit of one attempt, in milliseconds. */
  readonly timeout?: number | undefined;
  /** True if its values, and the values of steps inside it, are kept out of `steps`, logs and spans. */
  readonly redact?: boolean | undefined;
  readonly inputSchema?: Schema | undefined;
  readonly outputSchema?: Schema | undefined;
  readonly suspendSchema?: Schema | undefined;
  readonly resumeSchema?: Schema | undefined;
  /** True if a resume may end its wait, if it waits for a time or an event. */
  readonly skippable?: boolean | undefined;
  /** The steps inside this one, in order. */
  readonly steps?: readonly Step[] | undefined;
  /** The workflow that this step runs. The paths of its steps begin with this id. */
  readonly workflow?: WorkflowDefinition | undefined;
  /** The user's code, by the suffix of its journal key. */
  readonly codes: StepCodes;
  /** The order of its codes, steps and branches: a pure generator of the operations that it waits for. */
  readonly run: (runner: StepRunner, data: Value, resumed?: ResumeInput) => Branch;
}

export interface WorkflowDefinition {
  readonly type: "workflow";
  readonly id: string;
  readonly name: string;
  readonly purpose: string;
  readonly inputSchema?: Schema | undefined;
  readonly resultSchema?: Schema | undefined;
  readonly suspendSchema?: Schema | undefined;
  readonly resumeSchema?: Schema | undefined;
  readonly retry?: Retry | undefined;
  /** The treatment of an execution that was running when the process died. */
  readonly recovery: "resume" | "fail";
  /** Decides who may start it, and who may do what to its executions. */
  readonly authorize?: Authorize | undefined;
  // The type of its input was checked where the workflow was defined.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly concurrency?: ConcurrencyOptions<any> | undefined;
  readonly steps: readonly Step[];
}

/** A workflow with the types of its input and its result. */
export interface TypedWorkflow<Start, Result> extends WorkflowDefinition, WorkflowReference<Start, Result> {
  readonly type: "workflow";
  readonly id: string;
}

export type StepCodes = { readonly [Suffix in EntrySuffix]?: StepCode };

/** User code that runs as an entry of the journal, and the rules for it. */
export interface StepCode {
  readonly execute: ExecuteCode;
  readonly retry?: Retry | undefined;
  readonly timeout?: number | undefined;
  readonly inputSchema?: Schema | undefined;
  readonly outputSchema?: Schema | undefined;
  readonly suspendSchema?: Schema | undefined;
  /** True if the code may suspend. @default false */
  readonly suspends?: boolean;
}
// The types of a user's code were checked where the step was defined.
// oxlint-disable-next-line typescript/no-explicit-any
export type ExecuteCode = (context: StepContext<any, any, any, any>, tools: CodeTools) => unknown;
/** The means of our own step types. They are not handed to a user's code. */
export interface CodeTools {
  ask(agent: Agent, prompt: Prompt, options: AskOptions): Promise<unknown>;
  /** The value that the step passed as `argument`. */
  readonly argument: unknown;
  readonly limits: StepLimits;
  /** A loop begins: its items are the return value of the code. */
  beginLoop(loop: LoopStart): void;
}
/** The limits of loops and waits, from the config. */
export interface StepLimits {
  /** Max items of one loop. */
  readonly loopItems: number;
  /** Max items of one loop that are in progress at the same time. */
  readonly loopConcurrency: number;
  /** The longest wait without a suspension, in milliseconds. */
  readonly inlineSleepMs: number;
}

/** A branch of a workflow. It is synchronous and pure; only the user's code is async. */
export type Branch<T = StepOutput> = Generator<Operation, T, unknown>;

/** The result of a step. */
export interface StepOutput {
  readonly value: Value;
  /** The attempt that succeeded. @default 1 */
  readonly attempt?: number;
  readonly skipped?: boolean;
  /** How a loop begins, if the value is its items. */
  readonly loop?: LoopStart | undefined;
}

type Operation =
  | { readonly type: "entry"; readonly plan: AttemptPlan }
  /** The branch waits for a person, a time or an event. */
  | { readonly type: "park"; readonly branch: ParkedBranch<Value> }
  /** The branch has failed for good. It continues when the execution is retried. */
  | { readonly type: "fail"; readonly error: StoredError }
  | { readonly type: "fork"; readonly fork: ForkPlan };

/** Branches that run concurrently. */
export interface ForkPlan {
  /** `all` fails with the first failure, `race` with the last one, `collect` never. */
  readonly mode: "all" | "race" | "collect";
  readonly count: number;
  /** Max branches that are in progress at the same time. A branch keeps its place until it ends. */
  readonly concurrency: number;
  readonly branch: (index: number) => Branch;
}
/** The end of a branch. A failure only where the fork collects them. */
export type BranchEnd = StepOutput | { readonly error: StoredError };

/** The operations of a step. There is one runner for the workflow, and one for each sub-workflow inside it. */
export interface StepRunner {
  /** Runs a step inside this one, with its events. */
  step(step: Step, data: Value, resumed?: ResumeInput): Branch;
  /** Runs one of the step's codes as a journal entry; again after a failure with attempts left, and after a resume. */
  entry(stepId: string, input: EntryInput): Branch;
  /** Runs branches concurrently; returns all outcomes in their order, or the outcome of the branch that won a race. */
  fork(fork: ForkPlan & { readonly mode: "all" | "race" }): Branch<readonly StepOutput[]>;
  /** Runs branches concurrently; returns how each of them ended. */
  collect(fork: Omit<ForkPlan, "mode">): Branch<readonly BranchEnd[]>;
  /** The runner of one loop iteration: the paths of its steps begin with `<stepId>/<index>/`. */
  iteration(stepId: string, index: number): StepRunner;
  /** Waits for a time or an event. Returns the event's data; undefined when the time has come, or the wait was skipped. */
  wait(stepId: string, wait: WaitInput): Branch<Value>;
  /** Runs another workflow's steps under the path of a step. */
  runWorkflow(stepId: string, workflow: WorkflowDefinition, data: Value): Branch;
}
/** A wait, as the step has recorded it in the entry before. */
export interface WaitInput {
  readonly kind: "timer" | "event";
  /** The end, from the entry on. @default it does not end by itself */
  readonly until?: Until | undefined;
  readonly event?: Omit<EventFilter, "step"> | undefined;
  /** The longest wait without a suspension, in milliseconds. */
  readonly inlineMs: number;
  /** True if a resume may end it. */
  readonly isSkippable: boolean;
}
export interface EntryInput {
  /** The iteration number, for code that runs once per iteration. */
  readonly iteration?: number;
  /** @default "" */
  readonly suffix?: EntrySuffix;
  readonly data: Value;
  /** True if the branch continues after a failure, with the value undefined. @default false */
  readonly isTolerated?: boolean;
  /** A second value, for code that needs one beside `data`. */
  readonly argument?: Value;
  readonly resumed?: ResumeInput | undefined;
}
