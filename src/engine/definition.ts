import type { JsonText } from "../core/json.ts";
import type { Schema } from "../core/schema.ts";
import type { Agent, AskOptions, Prompt } from "./ask.ts";
import type { StepContext } from "./step-context.ts";
import type { ParkedBranch, Position } from "./execution.ts";
import type { Start } from "./walk/walk.ts";

export const stepTypes = ["andThen", "andWhen", "andAll", "andRace", "andTap", "andAgent", "andWorkflow"] as const;
export type StepType = (typeof stepTypes)[number];

/** How often a failed attempt is made again. Delays are in milliseconds and are not durable. */
export interface Retry {
  /** All attempts together, the first one included. */
  attempts: number;
  /** Wait before the second attempt. @default 0 */
  delay?: number;
  /** What the wait is multiplied by for each further attempt. @default 1 */
  backoff?: number;
}

/** One step of a workflow, whatever made it. */
export interface Step {
  readonly type: StepType;
  readonly id: string;
  readonly name: string;
  readonly purpose: string;
  readonly retry?: Retry | undefined;
  /** Milliseconds that one attempt may take. */
  readonly timeout?: number | undefined;
  readonly inputSchema?: Schema | undefined;
  readonly outputSchema?: Schema | undefined;
  readonly suspendSchema?: Schema | undefined;
  readonly resumeSchema?: Schema | undefined;
  /** The steps inside this one, in order. */
  readonly steps?: readonly Step[] | undefined;
  /** The workflow that this step runs; its steps stand under the id of this one. */
  readonly workflow?: WorkflowDefinition | undefined;
  /** What the step means: a branch that yields what it wants to wait for. */
  readonly run: (scope: StepRunner, data: JsonText | undefined, resumed?: Resumed) => Branch;
}

/** A whole workflow. */
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
  /** What becomes of an execution that was running when the process died. */
  readonly recovery: "resume" | "fail";
  readonly steps: readonly Step[];
}

/** A branch of a workflow: a generator that yields what it wants to wait for. Only code inside an entry is async. */
export type Branch<T = Outcome> = Generator<Operation, T, unknown>;

/** What a step made. */
export interface Outcome {
  readonly value: JsonText | undefined;
  /** The attempt that succeeded. @default 1 */
  readonly attempt?: number;
  readonly skipped?: boolean;
}

type Operation =
  | { readonly type: "entry"; readonly position: Position; readonly attempt: EntryAttempt }
  | { readonly type: "park"; readonly parked: ParkedBranch }
  | { readonly type: "fork"; readonly mode: "all" | "race"; readonly branches: readonly Branch[] };

/** One attempt at an entry. */
export interface EntryAttempt extends Start {
  /** Tells its code that nobody waits for it any more. */
  abort(reason: string): void;
}

/** What came with a resume. */
export interface Resumed {
  readonly data: JsonText | undefined;
  readonly by: StepContext["resumedBy"];
}

/** What a step may do. There is one scope for the workflow, and one for each sub-workflow inside it. */
export interface StepRunner {
  /** Runs a step inside this one, with its events. */
  step(step: Step, data: JsonText | undefined, resumed?: Resumed): Branch;
  /** Runs user code as entries of the journal: again when it failed and may be retried, again when it is resumed. */
  entry(entry: Entry): Branch;
  /** Runs branches at once: all of their outcomes, or the first one's. */
  fork(mode: "all" | "race", branches: readonly Branch[]): Branch<readonly Outcome[]>;
  /** Runs the steps of another workflow under the path of a step. */
  within(id: string, workflow: WorkflowDefinition, data: JsonText | undefined): Branch;
}

/** User code, and what holds for it. A step hands over itself and adds the rest. */
export interface Entry {
  readonly id: string;
  /** Tells apart the entries of one step: `?` a condition, `<` a check of what comes in, `>` of what goes out. */
  readonly suffix?: "?" | "<" | ">";
  readonly data: JsonText | undefined;
  readonly code: Code;
  readonly retry?: Retry | undefined;
  readonly timeout?: number | undefined;
  readonly inputSchema?: Schema | undefined;
  readonly outputSchema?: Schema | undefined;
  readonly suspendSchema?: Schema | undefined;
  /** Whether the code may suspend. @default false */
  readonly suspends?: boolean;
  readonly resumed?: Resumed | undefined;
}
// The types of a user's code were checked where the step was defined.
// oxlint-disable-next-line typescript/no-explicit-any
export type Code = (context: StepContext<any, any, any, any>, asker: StepAsker) => unknown;
/** Asks agents on behalf of one execution. */
export interface StepAsker {
  ask(agent: Agent, prompt: Prompt, options: AskOptions): Promise<unknown>;
}
