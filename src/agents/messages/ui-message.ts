import type { UIMessage } from "ai";
import type { Usage } from "../shapes.ts";

/** The metadata of a stored message. */
export interface MessageMetadata {
  /** The time of creation. Null for messages of releases that did not store it. */
  readonly createdAt: string | null;
  /** The tokens of an answer: the sum over all turns that have continued it. */
  readonly usage?: Usage | undefined;
  /** True if the answer was stopped before its end. */
  readonly stopped?: true | undefined;
  /** The tool calls that have started an execution. */
  readonly executions?: readonly ExecutionCall[] | undefined;
  /** The person who has written the message, beside the user of the conversation. Never set by a message of a client. */
  readonly author?: Author | undefined;
}

/** The author of a message. */
export interface Author {
  /** The id of the user. */
  readonly id: string;
  /** Max 80 characters, without brackets, line breaks and control characters. */
  readonly name?: string | undefined;
}

/** A tool call, and the execution that it has started. */
export interface ExecutionCall {
  readonly toolCallId: string;
  readonly executionId: string;
  /** True if the answer does not wait for the execution, or has continued after its end. */
  readonly ended?: true | undefined;
}

/** A stored message, as `useChat` takes it. */
export type StoredUiMessage = UIMessage<MessageMetadata>;
export type UiParts = UIMessage["parts"];
