import type { Caller } from "../core/caller.ts";
import type { Logger } from "../core/log.ts";
import type { Schema } from "../core/schema.ts";

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

/** What a step's own code gets. */
export interface StepContext<Data = unknown, Input = unknown, Resume = unknown, Suspend = never> {
  /** What the step before returned; in the first step, the workflow's input. */
  readonly data: Data;
  /** The workflow's input. */
  readonly input: Input;
  /** Parks the execution until somebody resumes it. Never returns: on resume the step runs again with `resumeData`. */
  readonly suspend: (reason?: string, data?: Suspend) => Promise<never>;
  /** What the caller of `resume` sent; undefined until then. */
  readonly resumeData: Resume | undefined;
  /** Who resumed, when that caller was authenticated. */
  readonly resumedBy: Caller | undefined;
  /** The recorded output of an earlier step, `"sub/verify"` inside a sub-workflow; undefined when there is none. */
  readonly getStepData: (id: string) => unknown;
  /** `options.context`, and the keys `userId`, `conversationId` and `user` when known. */
  readonly context: ReadonlyMap<string, unknown>;
  readonly executionId: string;
  readonly stepId: string;
  /** 1 for the first attempt; retries count, crashes do not. */
  readonly attempt: number;
  /** The same for every run of this step, also after a crash: hand it to whatever must happen once. */
  readonly idempotencyKey: string;
  /** Aborted by cancel, time-out, a lost race and a failed sibling. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** Puts an event of your own on the live stream. */
  readonly emit: (event: { type: string; [key: string]: unknown }) => void;
}

/** What an `andAgent` step asks. The agents themselves stand one floor up. */
export interface Agent {
  readonly type: "agent";
  readonly id: string;
  /** The answer: text, or the object that `schema` describes. */
  readonly ask: (prompt: Prompt, options: { schema?: Schema | undefined; context: StepContext }) => Promise<unknown>;
}
export type Prompt = string | readonly { role: string; [key: string]: unknown }[];
