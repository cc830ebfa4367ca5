import type { Schema } from "../../core/schema.ts";
import type { Agent, Prompt } from "./reference.ts";
import type { StepCaller } from "../runtime.ts";
import type { StepContext } from "./step-context.ts";

/** Asks an agent on behalf of a step. The answer is text, or the object that `schema` describes. */
export type AskAgent = (agent: Agent, prompt: Prompt, options: AskOptions & { caller: StepCaller }) => Promise<unknown>;
export interface AskOptions {
  readonly schema?: Schema | undefined;
  readonly context: StepContext;
}
