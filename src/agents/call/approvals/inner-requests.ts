import type { ModelMessage } from "ai";
import { InnerApproval } from "../../tools/inner-approval.ts";
import type { NoResult } from "../../tools/no-result.ts";
import { openCalls, partsOf, type MessagePart } from "../history/messages.ts";

/**
 * Adds the approval requests of asked agents to the messages with the tool calls. An earlier request of the same call, and
 * its response, are removed: the call waits for one approval after the other.
 */
export function withRequests(
  models: readonly ModelMessage[],
  waiting: ReadonlyMap<string, NoResult> = new Map(),
): readonly ModelMessage[] {
  const asked = [...waiting].flatMap(([toolCallId, call]) =>
    call instanceof InnerApproval ? [{ toolCallId, call }] : [],
  );
  if (asked.length === 0) return models;
  const { approvals } = openCalls(models);
  const isOld = ({ approvalId = "" }: MessagePart): boolean => waiting.has(approvals.get(approvalId) ?? "");
  const requests = asked.map(({ toolCallId, call: { id, inner } }) => {
    const place = models.findLastIndex((message) => partsOf(message).some((part) => isCall(part, toolCallId)));
    return { place, request: { type: "tool-approval-request", approvalId: id, toolCallId, inner } };
  });
  return models.flatMap((message, index) => {
    const added = requests.filter(({ place }) => place === index).map(({ request }) => request);
    return withParts(message, (parts) => [...parts.filter((part) => !isOld(part)), ...added]);
  });
}
const isCall = ({ type, toolCallId }: MessagePart, id: string): boolean => type === "tool-call" && toolCallId === id;

/** Removes the state of agents from requests whose calls have a result. */
export function withoutEnded(models: readonly ModelMessage[]): readonly ModelMessage[] {
  if (!models.some(hasInner)) return models;
  const { approvals } = openCalls(models);
  return models.flatMap((message) =>
    withParts(message, (parts) =>
      parts.map((part) => (approvals.has(part.approvalId ?? "") ? part : withoutInner(part))),
    ),
  );
}

/**
 * Returns messages as the SDK takes them: it runs the tool whose agent waited for an approval. That agent is told the
 * decision, also if it is a denial.
 */
export function toRunnable(models: readonly ModelMessage[]): readonly ModelMessage[] {
  if (!models.some(hasInner)) return models;
  const ids = new Set(models.flatMap(partsOf).flatMap(({ inner, approvalId }) => (inner ? [approvalId] : [])));
  return models.flatMap((message) =>
    withParts(message, (parts) =>
      parts.map((part) =>
        part.type === "tool-approval-response" && ids.has(part.approvalId)
          ? { ...part, approved: true }
          : withoutInner(part),
      ),
    ),
  );
}

const hasInner = (message: ModelMessage): boolean => partsOf(message).some(({ inner }) => inner !== undefined);
const withoutInner = ({ inner: _inner, ...part }: MessagePart): MessagePart => part;

/** Returns the message with other parts. A message without parts is left out. */
function withParts(
  message: ModelMessage,
  change: (parts: readonly MessagePart[]) => readonly MessagePart[],
): ModelMessage[] {
  if (typeof message.content === "string") return [message];
  const content = change(partsOf(message));
  return content.length > 0 ? [{ ...message, content } as ModelMessage] : []; // the parts still have this role
}
