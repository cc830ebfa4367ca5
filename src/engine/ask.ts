import type { CallContext } from "../core/caller.ts";
import type { Schema } from "../core/schema.ts";
import type { StepContext } from "./step-context.ts";

/** An agent as a step refers to it. Agents themselves are defined in `agents/`. */
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
/** The part of an execution that says on whose behalf it runs. */
interface Asker extends CallContext {
  readonly startAt: number;
}
export type Prompt = string | readonly { role: string; [key: string]: unknown }[];
