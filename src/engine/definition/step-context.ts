import type { Schema } from "../../core/schema.ts";
import type { Agent, Prompt } from "./reference.ts";
import type { Caller } from "../../core/caller.ts";
import type { Logger } from "../../core/log.ts";
import type { StepCaller, StepRuntime } from "../runtime.ts";
import type { Duration } from "./until.ts";

/** The options of `suspend()`. */
export interface SuspendOptions {
  /**
   * Milliseconds, a duration such as `"2d"`, or a date, after which the step runs again with `timedOut`. @default it waits
   * without a limit
   */
  timeout?: Duration | Date;
}

/** The argument of a step's code. */
export interface StepContext<Data = unknown, Input = unknown, Resume = unknown, Suspend = never> {
  /** The output of the step before; in the first step, the workflow's input. */
  readonly data: Data;
  /** The workflow's input. */
  readonly input: Input;
  /** Suspends the execution until it is resumed. Never returns: after the resume the step runs again, with `resumeData`. */
  readonly suspend: (reason?: string, data?: Suspend, options?: SuspendOptions) => Promise<never>;
  /** True if the time of the last suspension is over and nobody has resumed it. Then `resumeData` is undefined. */
  readonly timedOut: boolean;
  /** The data of the resume; undefined in the first run. */
  readonly resumeData: Resume | undefined;
  /** The authenticated caller of the resume. */
  readonly resumedBy: Caller | undefined;
  /** The recorded output of an earlier step, `"sub/verify"` inside a sub-workflow; undefined when there is none. */
  readonly getStepData: (id: string) => unknown;
  /** `options.context`, and the keys `userId`, `conversationId` and `user` when known. */
  readonly context: ReadonlyMap<string, unknown>;
  readonly executionId: string;
  readonly stepId: string;
  /** 1 for the first attempt; retries count, crashes do not. */
  readonly attempt: number;
  /** The same for every run of this step, also after a crash. Pass it to services whose effect must happen once. */
  readonly idempotencyKey: string;
  /** Aborted by a cancel, a time-out, a lost race, a failed sibling, a resume at an earlier step and the end of the server. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /**
   * Starts workflows, asks agents and sends events, for the user of the execution. A child that this step starts again,
   * after a crash or a retry, is the same one.
   */
  readonly runtime: StepRuntime;
  /** Publishes an event of your own on the live stream. The server sets `executionId`, `from` and `timestamp`, and removes `seq`. */
  readonly emit: (event: { type: string; [key: string]: unknown }) => void;
}

/** Asks an agent on behalf of a step. The answer is text, or the object that `schema` describes. */
export type AskAgent = (agent: Agent, prompt: Prompt, options: AskOptions & { caller: StepCaller }) => Promise<unknown>;
export interface AskOptions {
  readonly schema?: Schema | undefined;
  readonly context: StepContext;
}
