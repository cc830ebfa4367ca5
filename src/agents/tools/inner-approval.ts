import type { ModelMessage } from "ai";
import type { DecidedCall } from "../../engine/stored/pending-calls.ts";

/**
 * The state of an agent that a tool has asked, and that waits for an approval. It is stored in the request for the approval,
 * which is one of the outer call.
 */
export interface InnerCall {
  /** The ids of the agents that were asked: that of the tool first, and that whose tool waits last. */
  readonly via: readonly string[];
  /** The tool that waits, and its input. */
  readonly toolName: string;
  readonly input: unknown;
  /** The messages of the agent after the question. */
  readonly models: readonly ModelMessage[];
  /** The outcomes of its other calls that have waited. It continues when all have one. */
  readonly outcomes: readonly DecidedCall[];
}

/** An answer without a conversation that is continued: its messages after the question, and the outcomes of its open calls. */
export interface ContinuedCall {
  readonly models: readonly ModelMessage[];
  readonly outcomes: readonly DecidedCall[];
}

/** The result of a tool call that waits for an approval of the agent that it has asked. The call has none yet. */
export class InnerApproval {
  /** The id of the approval. */
  readonly id: string;
  readonly inner: InnerCall;

  constructor(id: string, inner: InnerCall) {
    this.id = id;
    this.inner = inner;
  }
}
