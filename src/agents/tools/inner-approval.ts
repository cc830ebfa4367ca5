import type { ModelMessage } from "ai";
import type { DecidedCall } from "../../engine/stored/pending-calls.ts";

/** An answer without a conversation that is continued. */
export interface ContinuedCall {
  /** The messages after the question. */
  readonly models: readonly ModelMessage[];
  /** The outcomes of its open calls. It continues when all have one. */
  readonly outcomes: readonly DecidedCall[];
}

/**
 * The state of an agent that waits for an approval, and was asked by a tool. It is stored in the approval request of the outer
 * call.
 */
export interface InnerCall extends ContinuedCall {
  /** The ids of the agents, first the one that the outer call has asked. The last one has the waiting tool. */
  readonly via: readonly string[];
  /** The waiting tool, and its input. */
  readonly toolName: string;
  readonly input: unknown;
}

/** The result of a tool call whose agent waits for an approval. The call has no result of its own yet. */
export class InnerApproval {
  /** The id of the approval. */
  readonly id: string;
  readonly inner: InnerCall;

  constructor(id: string, inner: InnerCall) {
    this.id = id;
    this.inner = inner;
  }
}
