import type { FinishReason, LanguageModelUsage, ModelMessage, StepResult, TextStreamPart, ToolSet } from "ai";
import type { ServeError } from "../../../core/error.ts";
import { noUsage } from "../../answers/usage.ts";
import type { SuspendedCall } from "../../tools/no-result.ts";
import { toAsked, type AskedApproval } from "../approvals/pending-calls.ts";
import type { WaitingAnswer } from "../history/turn-parts.ts";

/** The result of a call. */
export interface Answer {
  readonly text: string;
  /** The parsed value of `text`, if the question has a shape. */
  readonly object: unknown;
  readonly finishReason: FinishReason;
  /** The sum over all steps. */
  readonly usage: LanguageModelUsage;
  readonly steps: readonly StepResult<ToolSet>[];
  /** The calls of the stored answer that wait for an approval. */
  readonly approvals: readonly PendingApproval[];
  /** The calls of the stored answer that wait for their executions. */
  readonly suspensions: readonly PendingExecution[];
  /** The messages of an answer that is not stored, if calls of it wait for an approval. */
  readonly open?: readonly ModelMessage[] | undefined;
}
/** A tool call that waits for the end of an execution. */
export interface PendingExecution extends Pick<SuspendedCall, "executionId" | "suspension"> {
  readonly toolCallId: string;
}
/** A tool call that waits for an approval, as a caller is told of it. */
interface PendingApproval {
  readonly approvalId: string;
  readonly toolName: string;
  readonly toolCallId: string;
  readonly input: unknown;
  /** The asked agents, if the last one has the tool. */
  readonly via?: string[];
}
/** A part of an answer. The first part has the id of the message, the last one the whole answer. */
export type AnswerPart =
  | Exclude<TextStreamPart<ToolSet>, { type: "start" | "finish" | "error" }>
  | { readonly type: "start"; readonly messageId: string }
  | { readonly type: "finish"; readonly answer: Answer };

/** A part of a stream that has started. An `error` part is always the last one. */
export type StreamPart = AnswerPart | { readonly type: "error"; readonly error: ServeError };

/** Returns an approval as a caller is told of it. */
export const toApproval = ({ id, toolName, toolCallId, input, via }: Omit<AskedApproval, "at">): PendingApproval => ({
  approvalId: id,
  toolName,
  toolCallId,
  input,
  ...(via && { via: [...via] }),
});

/** The answer to decisions after which a message still waits. */
export const toWaitingAnswer = (
  { rest }: Pick<WaitingAnswer, "rest">,
  suspensions: readonly PendingExecution[] = [],
): Answer => ({
  suspensions,
  text: "",
  object: undefined,
  finishReason: "tool-calls",
  usage: noUsage,
  steps: [],
  approvals: rest.map(toAsked).map(toApproval),
});
