import { getToolName } from "ai";
import { useState } from "preact/hooks";
import { Json } from "../../../parts/json.tsx";
import { Text, toVisible } from "../../../parts/text.tsx";
import type { AgentDetail } from "../agent-detail.ts";
import type { ChatSession } from "../chat/chat-session.ts";
import type { ChatMessage } from "../chat/chat-state.ts";
import { ClientTool } from "./client-tool.tsx";
import { Decision } from "./decision.tsx";
import { SuspendedCall } from "./suspended-call.tsx";
import { findExecution, isClientCall, type ToolPart } from "./tool-parts.ts";

export interface ToolCallProps {
  readonly message: ChatMessage;
  readonly part: ToolPart;
  readonly context: ToolCallContext;
}
/** The chat around a call. */
interface ToolCallContext {
  readonly session: ChatSession;
  readonly isLast: boolean;
  readonly phase: string;
  readonly agent: AgentDetail | undefined;
}

/** A call of a tool: its input, its state, its output or error. A call that waits for a person can be answered here. */
export function ToolCall({ message, part, context }: ToolCallProps) {
  const { session, isLast, phase, agent } = context;
  const name = getToolName(part);
  const canAnswer = isLast && phase === "ready";
  const executionId = findExecution(message, part);
  const workflowId = agent?.tools?.find((tool) => tool.name === name)?.workflowId;
  const waits = canAnswer && (part.state === "approval-requested" || part.state === "input-available");
  const [isOpen, setOpen] = useState<boolean | undefined>();
  const [word, status] = toState(part, { waits, executionId });
  return (
    <details
      class="panel tool"
      open={isOpen ?? waits}
      onToggle={({ currentTarget }) => setOpen(currentTarget.open === waits ? undefined : currentTarget.open)}
    >
      <summary>
        <strong>
          <Text value={part.title ?? name} />
        </strong>{" "}
        <span class="status" data-status={status}>
          {word}
        </span>{" "}
        {part.input !== undefined && <code>{toVisible(toShort(part.input))}</code>}
      </summary>
      {part.input !== undefined && (
        <>
          <h3>Input</h3>
          <Json label={`Input of ${name}`} value={part.input} depth={2} />
        </>
      )}
      {part.state === "output-available" && (
        <>
          <h3>{part.preliminary ? "Output so far" : "Output"}</h3>
          <Json label={`Output of ${name}`} value={part.output} depth={2} />
        </>
      )}
      {part.state === "output-error" && <pre class="problem">{toVisible(part.errorText)}</pre>}
      {part.approval?.reason && (
        <p>
          Reason: <Text value={part.approval.reason} />
        </p>
      )}
      {canAnswer && part.state === "approval-requested" && (
        <Decision session={session} approvalId={part.approval.id} name={name} />
      )}
      {canAnswer && !session.isOther.value && isClientCall(message, part) && (
        <ClientTool session={session} toolCallId={part.toolCallId} name={name} />
      )}
      {executionId !== undefined && workflowId !== undefined && (
        <SuspendedCall
          workflowId={workflowId}
          executionId={executionId}
          isOpen={canAnswer && part.state === "input-available"}
          onResumed={() => void session.refresh()}
        />
      )}
    </details>
  );
}

function toState(
  part: ToolPart,
  { waits, executionId }: { waits: boolean; executionId: string | undefined },
): readonly [word: string, status: string] {
  switch (part.state) {
    case "input-streaming":
      return ["its input is written", "running"];
    case "input-available":
      if (executionId !== undefined) return ["waits for a workflow", "waiting"];
      return waits ? ["waits for your result", "waiting"] : ["runs", "running"];
    case "approval-requested":
      return ["waits for approval", "waiting"];
    case "approval-responded":
      return part.approval.approved ? ["approved", "running"] : ["denied", "error"];
    case "output-available":
      return part.preliminary ? ["runs", "running"] : ["done", "completed"];
    case "output-error":
      return ["failed", "error"];
    case "output-denied":
      return ["denied", "error"];
  }
}

/** Returns the beginning of a value as JSON, for a line. */
function toShort(value: unknown): string {
  const text = JSON.stringify(value) ?? "";
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
