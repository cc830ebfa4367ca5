import type { Schema } from "../core/schema.ts";
import type { Agent, AskOptions, Prompt } from "./ask.ts";
import type { ParkedBranch, Position } from "./execution.ts";
import type { StepContext } from "./step-context.ts";
import type { EntrySuffix } from "./walk/journal-keys.ts";
import type { Value } from "./walk/value.ts";
import type { AttemptPlan, ResumeInput } from "./walk/decision.ts";

export const stepTypes = ["andThen", "andWhen", "andAll", "andRace", "andTap", "andAgent", "andWorkflow"] as const;
export type StepType = (typeof stepTypes)[number];

/** The retry policy of a step. Delays are in milliseconds. They are not durable: after a restart the whole delay begins again. */
export interface Retry {
  /** The number of attempts, the first one included. */
  attempts: number;
  /** The delay before the second attempt. @default 0 */
  delay?: number;
  /** The factor by which the delay grows with each further attempt. @default 1 */
  backoff?: number;
}

/** A step of a workflow: its description, the user's code in it (`codes`), and the order in which that runs (`run`). */
export interface Step {
  readonly type: StepType;
  readonly id: string;
  readonly name: string;
  readonly purpose: string;
  readonly retry?: Retry | undefined;
  /** The time limit of one attempt, in milliseconds. */
  readonly timeout?: number | undefined;
  readonly inputSchema?: Schema | undefined;
  readonly outputSchema?: Schema | undefined;
  readonly suspendSchema?: Schema | undefined;
  readonly resumeSchema?: Schema | undefined;
  /** The steps inside this one, in order. */
  readonly steps?: readonly Step[] | undefined;
  /** The workflow that this step runs. The paths of its steps begin with the id of this one. */
  readonly workflow?: WorkflowDefinition | undefined;
  /** The user's code, by the suffix of its journal key. */
  readonly codes: StepCodes;
  /** The order in which its codes, its steps and its branches run: a pure generator of the operations that it waits for. */
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
  readonly steps: readonly Step[];
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
  /** Whether the code may suspend. @default false */
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
}

/** A branch of a workflow. It is synchronous and pure; only the user's code is async. */
export type Branch<T = Outcome> = Generator<Operation, T, unknown>;

/** The result of a step. */
export interface Outcome {
  readonly value: Value;
  /** The attempt that succeeded. @default 1 */
  readonly attempt?: number;
  readonly skipped?: boolean;
}

type Operation =
  | { readonly type: "entry"; readonly position: Position; readonly plan: AttemptPlan }
  | { readonly type: "park"; readonly branch: ParkedBranch<Value> }
  | { readonly type: "fork"; readonly mode: ForkMode; readonly branches: readonly Branch[] };
export type ForkMode = "all" | "race";

/** The operations of a step. There is one runner for the workflow, and one for each sub-workflow inside it. */
export interface StepRunner {
  /** Runs a step inside this one, with its events. */
  step(step: Step, data: Value, resumed?: ResumeInput): Branch;
  /** Runs one of the step's codes as an entry of the journal; again after a failure that may be retried, and after a resume. */
  entry(stepId: string, input: EntryInput): Branch;
  /** Runs branches concurrently; returns the outcomes of all, or that of the first one. */
  fork(mode: ForkMode, branches: readonly Branch[]): Branch<readonly Outcome[]>;
  /** Runs the steps of another workflow under the path of a step. */
  runWorkflow(stepId: string, workflow: WorkflowDefinition, data: Value): Branch;
}
export interface EntryInput {
  /** @default "" */
  readonly suffix?: EntrySuffix;
  readonly data: Value;
  /** A second value, for code that needs one beside `data`. */
  readonly argument?: Value;
  readonly resumed?: ResumeInput | undefined;
}
