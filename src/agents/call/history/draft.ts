import { createHash } from "node:crypto";
import type { ModelMessage } from "ai";
import { newId } from "../../../core/id.ts";
import { toIso } from "../../../core/iso-time.ts";
import type { StoredMessage } from "../../../engine/contract/conversations.ts";
import { addModels } from "../../messages/from-models.ts";
import { withGranted } from "../../messages/granted.ts";
import { yieldAfter } from "../../messages/long-text.ts";
import { addUsage } from "../../answers/usage.ts";
import type { ExecutionCall, MessageMetadata, StoredUiMessage, UiParts } from "../../messages/ui-message.ts";
import type { Usage } from "../../shapes.ts";
import type { NoResult } from "../../tools/no-result.ts";
import { withoutEnded, withRequests } from "../approvals/inner-requests.ts";
import { toRecord } from "../record-text.ts";
import type { ClientMessage } from "./messages.ts";

/** A message that a turn is about to store. */
export interface Draft {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly parts: UiParts;
  readonly models: readonly ModelMessage[];
  readonly metadata: MessageMetadata;
}

/** The answer of a turn, to be stored. */
export interface TurnAnswer {
  readonly id: string;
  readonly models: readonly ModelMessage[];
  /** @default not known */
  readonly usage?: Usage | undefined;
  readonly stopped?: true | undefined;
  /** True if the answer is not complete. It is stored although the call is aborted. */
  readonly isPartial?: true | undefined;
  /** The tool calls that have started an execution. @default none */
  readonly executions?: readonly ExecutionCall[] | undefined;
  /** The tool calls that wait, by their id. @default none */
  readonly waiting?: ReadonlyMap<string, NoResult> | undefined;
  /** The time of the answer. */
  readonly at: number;
  /** Returns the parts of the continued message and of the answer. */
  toParts(before: UiParts): Promise<UiParts>;
}

/**
 * Converts client messages. Tool results become a part of the message with their calls. A message without an id gets one,
 * which is the same when a turn with a name runs again.
 */
export function toDrafts(messages: readonly ClientMessage[], at: number, turnName: string | undefined): Draft[] {
  const drafts: Draft[] = [];
  for (const { id, role, models, parts } of messages) {
    const last = drafts.at(-1);
    if (role === "tool" && last?.role === "assistant") drafts[drafts.length - 1] = withModels(last, models);
    else if (models.length > 0) {
      drafts.push({
        id: id || toMessageId(turnName, drafts.length),
        role: role === "user" ? "user" : "assistant",
        parts: parts ?? addModels([], models),
        models,
        metadata: { createdAt: toIso(at) },
      });
    }
  }
  return drafts;
}

function toMessageId(turnName: string | undefined, index: number): string {
  if (turnName === undefined) return newId();
  return createHash("sha256").update(`${turnName}\n${index}`).digest("base64url").slice(0, 22);
}

/** Returns the draft with more model messages, such as results of its tools. */
export const withModels = (draft: Draft, models: readonly ModelMessage[]): Draft => ({
  ...draft,
  parts: addModels(draft.parts, models),
  models: [...draft.models, ...models],
});

/** Returns the draft of an answer: a message of its own, or the one that it continues. */
export async function answerDraft(continued: Draft | undefined, answer: TurnAnswer): Promise<Draft> {
  const { createdAt, usage, executions: before } = continued?.metadata ?? { createdAt: toIso(answer.at) };
  const executions = addExecutions(before, answer.executions);
  return {
    id: continued?.id ?? answer.id,
    role: "assistant",
    parts: await answer.toParts(continued?.parts ?? []),
    models: withRequests([...(continued?.models ?? []), ...answer.models], answer.waiting),
    metadata: {
      createdAt,
      usage: usage && answer.usage ? addUsage(usage, answer.usage) : (answer.usage ?? usage),
      ...(answer.stopped && { stopped: true }),
      ...(executions.length > 0 && { executions }),
    },
  };
}

/** Adds the executions of an answer to the continued message. An answer continues when all of them are over. */
function addExecutions(
  before: readonly ExecutionCall[] = [],
  added: readonly ExecutionCall[] = [],
): readonly ExecutionCall[] {
  const ended = before.map((call) => ({ ...call, ended: true as const }));
  // Some providers use an id again.
  return [...new Map([...ended, ...added].map((call) => [call.toolCallId, call])).values()];
}

/** Converts a draft to its row. Other requests get a turn after each long text. */
export async function toStored({ id, role, parts, models, metadata }: Draft): Promise<StoredMessage> {
  const { createdAt } = metadata;
  const ui = toRecord({ id, role, metadata, parts: withGranted(parts) } satisfies StoredUiMessage);
  await yieldAfter(ui);
  const text = toRecord(withoutEnded(models));
  await yieldAfter(text);
  return {
    id,
    role,
    ui,
    models: text,
    count: models.length,
    at: createdAt === null ? null : Date.parse(createdAt),
  };
}
