import type { Caller } from "../core/caller.ts";
import type { Logger } from "../core/log.ts";

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
