import type { Caller, Identity } from "../core/caller.ts";
import type { Logger } from "../core/log.ts";
import type { Schema } from "../core/schema.ts";

/** What a caller sent along, and who it is, as steps, tools and hooks see it: a copy of their own. */
export function toContextMap({ context, userId, conversationId, user }: Surroundings): Map<string, unknown> {
  const map = new Map(Object.entries(structuredClone(context)));
  if (userId !== undefined) map.set("userId", userId);
  if (conversationId !== undefined) map.set("conversationId", conversationId);
  if (user !== undefined) map.set("user", structuredClone(user));
  return map;
}
export interface Surroundings extends Partial<Caller> {
  readonly context: Readonly<Record<string, unknown>>;
  readonly conversationId?: string | undefined;
}

/** What a client says of itself and its request. */
export interface Claims {
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  readonly context?: Readonly<Record<string, unknown>> | undefined;
}
/** Of these claims, what counts. With a provider, who the user is is only ever what the provider said. */
export function toSurroundings(
  { context = {}, userId, conversationId }: Claims,
  { checked, caller }: Identity,
): Surroundings {
  if (!checked) return { context, userId, conversationId };
  const { user: _user, userId: _userId, ...rest } = context;
  return { context: rest, conversationId, ...caller };
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
}
/** Asks an agent on behalf of a step. The answer is text, or the object that `schema` describes. */
export type AskAgent = (agent: Agent, prompt: Prompt, options: AskOptions & { execution: Asker }) => Promise<unknown>;
export interface AskOptions {
  readonly schema?: Schema | undefined;
  readonly context: StepContext;
}
/** Of an execution, on whose behalf it runs. */
export interface Asker extends Surroundings {
  readonly startAt: number;
}
export type Prompt = string | readonly { role: string; [key: string]: unknown }[];
