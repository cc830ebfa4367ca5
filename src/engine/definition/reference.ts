/** An agent as a step refers to it. Agents themselves are defined in `agents/`. */
export interface Agent {
  readonly type: "agent";
  readonly id: string;
}
/** The input of an agent: a text, or messages. */
export type Prompt = string | readonly { role: string; [key: string]: unknown }[];

/** A workflow as code that starts it refers to it, with the types of its input and its result. */
export interface WorkflowReference<Start, Result> {
  readonly type: "workflow";
  readonly id: string;
  /** Used only by the compiler. */
  readonly "~types"?: ((start: Start) => Result) | undefined;
}
