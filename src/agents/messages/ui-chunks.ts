import type { UIMessageChunk } from "ai";
import type { UiParts } from "./ui-message.ts";

type Part = UiParts[number];

/** The major version of a client's AI SDK. */
export type ClientSdk = "5" | "6" | "7";

/** The chunks that a version does not know. It ends a stream with an error at the first of them. */
const unknown: Record<ClientSdk, readonly UIMessageChunk["type"][]> = {
  "5": ["tool-approval-request", "tool-approval-response", "tool-output-denied", "custom", "reasoning-file"],
  "6": ["tool-approval-response", "custom", "reasoning-file"],
  "7": [],
};

/** Returns false for a chunk that a client does not know. */
export const isKnownChunk = ({ type }: UIMessageChunk, sdk: ClientSdk): boolean => !unknown[sdk].includes(type);

/** Returns the chunks of a UI message stream that lead to these parts. */
export function toChunks(parts: UiParts): UIMessageChunk[] {
  const chunks: UIMessageChunk[] = [];
  let isInStep = false;
  for (const [index, part] of parts.entries()) {
    if (part.type === "step-start") {
      if (isInStep) chunks.push({ type: "finish-step" });
      isInStep = true;
      chunks.push({ type: "start-step" });
    } else chunks.push(...toPartChunks(part, `stored-${index}`));
  }
  if (isInStep) chunks.push({ type: "finish-step" });
  return chunks;
}

function toPartChunks(part: Part, id: string): UIMessageChunk[] {
  switch (part.type) {
    case "text":
    case "reasoning": {
      const metadata = part.providerMetadata && { providerMetadata: part.providerMetadata };
      return [
        { type: `${part.type}-start`, id, ...metadata },
        { type: `${part.type}-delta`, id, delta: part.text },
        { type: `${part.type}-end`, id, ...metadata },
      ];
    }
    case "file":
    case "reasoning-file":
    case "source-url":
    case "source-document":
    case "custom":
      return [part];
    default:
      return part.type.startsWith("data-") ? [part as UIMessageChunk] : toToolChunks(part as ToolPart);
  }
}

type ToolCallChunk = Extract<UIMessageChunk, { type: "tool-input-available" }>;
/** The fields of tool parts, in any state. */
interface ToolPart {
  readonly type: string;
  readonly toolName?: string;
  readonly toolCallId: string;
  readonly state: string;
  readonly input: unknown;
  readonly output?: unknown;
  readonly errorText?: string;
  readonly preliminary?: boolean;
  readonly providerExecuted?: boolean;
  readonly title?: string;
  readonly callProviderMetadata?: ToolCallChunk["providerMetadata"];
  readonly approval?: { readonly id: string; readonly approved?: boolean; readonly reason?: string };
}

function toToolChunks({ type, toolCallId, state, input, approval, ...part }: ToolPart): UIMessageChunk[] {
  const isDynamic = type === "dynamic-tool";
  const toolName = isDynamic ? part.toolName! : type.slice("tool-".length); // a dynamic tool has its name beside the type
  const flags = {
    ...(part.providerExecuted !== undefined && { providerExecuted: part.providerExecuted }),
    ...(isDynamic && { dynamic: true }),
  };
  const call: UIMessageChunk = {
    type: "tool-input-available",
    toolCallId,
    toolName,
    input,
    ...flags,
    ...(part.title !== undefined && { title: part.title }),
    ...(part.callProviderMetadata && { providerMetadata: part.callProviderMetadata }),
  };
  const chunks: UIMessageChunk[] = [call];
  if (approval) chunks.push({ type: "tool-approval-request", approvalId: approval.id, toolCallId });
  if (approval?.approved !== undefined) {
    const { id: approvalId, approved, reason } = approval;
    chunks.push({ type: "tool-approval-response", approvalId, approved, ...(reason !== undefined && { reason }) });
  }
  if (state === "output-available") {
    const preliminary = part.preliminary === undefined ? {} : { preliminary: part.preliminary };
    chunks.push({ type: "tool-output-available", toolCallId, output: part.output, ...flags, ...preliminary });
  }
  if (state === "output-error") {
    chunks.push({ type: "tool-output-error", toolCallId, errorText: part.errorText ?? "", ...flags });
  }
  if (state === "output-denied") chunks.push({ type: "tool-output-denied", toolCallId });
  return chunks;
}
