import * as v from "valibot";
import type { AgentDetail, AgentSummary } from "./describe.ts";

const AnyObject = v.record(v.string(), v.unknown());
const Any = v.optional(v.unknown());
const Flag = v.optional(v.boolean());
const Text = v.optional(v.string());
const Tokens = v.nullable(v.number());

const summary = {
  id: v.string(),
  name: v.string(),
  description: v.string(),
  model: v.string(),
  status: v.picklist(["idle", "running"]),
};
const tool = { name: v.string(), description: v.string() };
export const SummaryShape: v.GenericSchema<AgentSummary> = v.pipe(
  v.object({ ...summary, tools: v.nullable(v.array(v.object(tool))) }),
  v.title("AgentSummary"),
);
export const DetailShape: v.GenericSchema<AgentDetail> = v.pipe(
  v.object({
    ...summary,
    tools: v.nullable(v.array(v.object({ ...tool, inputSchema: AnyObject, workflowId: Text, agentId: Text }))),
    maxSteps: v.number(),
    memory: v.boolean(),
    instructions: Text,
  }),
  v.title("AgentDetail"),
);

export interface Usage {
  inputTokens: number | null;
  outputTokens: number | null;
  totalTokens: number | null;
  reasoningTokens?: number | undefined;
  cachedInputTokens?: number | undefined;
}
export const UsageShape: v.GenericSchema<Usage> = v.pipe(
  v.object({
    inputTokens: Tokens,
    outputTokens: Tokens,
    totalTokens: Tokens,
    reasoningTokens: v.optional(v.number()),
    cachedInputTokens: v.optional(v.number()),
  }),
  v.title("Usage"),
);

interface ResultCall {
  toolCallId: string;
  toolName: string;
  input?: unknown;
}
export interface TextResult {
  text: string;
  finishReason: string;
  usage: Usage;
  toolCalls: ResultCall[];
  /** The results of the tool calls. A failed tool has an `error` instead of an `output`. */
  toolResults: (ResultCall & { output?: unknown; error?: string | undefined })[];
  steps: number;
  /** The tool calls that wait for an approval, if the finish reason is `approval`. */
  approvals?: readonly (ResultCall & { approvalId: string; via?: string[] | undefined })[] | undefined;
  /** The executions that tools wait for. Another turn continues the answer at their end. */
  suspensions?: { executionId: string; suspension: object }[] | undefined;
}
const call = { toolCallId: v.string(), toolName: v.string(), input: Any };
const PendingApprovalShape = v.object({ approvalId: v.string(), ...call, via: v.optional(v.array(v.string())) });
export const TextShape: v.GenericSchema<TextResult> = v.pipe(
  v.object({
    text: v.string(),
    finishReason: v.string(),
    usage: UsageShape,
    toolCalls: v.array(v.object(call)),
    toolResults: v.array(v.object({ ...call, output: Any, error: Text })),
    steps: v.number(),
    approvals: v.optional(v.array(PendingApprovalShape)),
    suspensions: v.optional(v.array(v.object({ executionId: v.string(), suspension: AnyObject }))),
  }),
  v.title("TextResult"),
);

/** A turn that runs without a reader. */
export interface BegunTurn {
  conversationId: string;
  messageId: string;
  status: "running";
}
export const BegunShape: v.GenericSchema<BegunTurn> = v.pipe(
  v.object({ conversationId: v.string(), messageId: v.string(), status: v.literal("running") }),
  v.title("BegunTurn"),
);

export const ObjectEventShape: v.GenericSchema = v.pipe(
  v.variant("type", [
    v.object({ type: v.literal("partial-object"), object: v.unknown() }),
    v.object({ type: v.literal("object"), object: v.unknown(), usage: UsageShape, finishReason: v.string() }),
    v.object({
      type: v.literal("error"),
      error: v.string(),
      detail: v.optional(v.string()),
      approvals: v.optional(v.array(PendingApprovalShape)),
    }),
  ]),
  v.title("ObjectEvent"),
);

type EventShape = v.ObjectSchema<v.ObjectEntries, undefined>;
const part = (type: string, entries: v.ObjectEntries = {}): [string, EventShape] => [
  type,
  v.object({ type: v.literal(type), ...entries }),
];
const metadata = { providerMetadata: v.optional(AnyObject) };
const block = { id: v.string(), ...metadata };
const toolCall = {
  ...call,
  title: Text,
  dynamic: Flag,
  providerExecuted: Flag,
  ...metadata,
  toolMetadata: v.optional(AnyObject),
};
const madeCall = v.object({ type: v.literal("tool-call"), ...toolCall, invalid: Flag, error: Text });
const file = { mediaType: v.string(), data: v.string(), ...metadata };

/** The events of `POST /agents/:id/stream`, with all their fields. */
export const EventShapes: Readonly<Record<string, EventShape>> = Object.fromEntries([
  part("start", { messageId: v.string() }),
  part("start-step", { warnings: v.array(v.unknown()) }),
  part("text-start", block),
  part("text-delta", { ...block, delta: v.string() }),
  part("text-end", { ...block, citations: v.optional(v.array(v.unknown())) }),
  part("reasoning-start", block),
  part("reasoning-delta", { ...block, delta: v.string() }),
  part("reasoning-end", block),
  part("tool-input-start", {
    ...block,
    toolName: v.string(),
    inputEncoding: Text,
    title: Text,
    dynamic: Flag,
    providerExecuted: Flag,
    toolMetadata: v.optional(AnyObject),
  }),
  part("tool-input-delta", { ...block, delta: v.string() }),
  part("tool-input-end", block),
  part("tool-call", madeCall.entries),
  part("tool-result", { ...toolCall, output: Any, preliminary: Flag }),
  part("tool-error", { ...toolCall, error: v.string() }),
  part("tool-approval-request", { approvalId: v.string(), toolCall: madeCall, reason: Text, isAutomatic: Flag }),
  part("tool-approval-response", { approvalId: v.string(), approved: v.boolean(), reason: Text }),
  part("tool-output-denied", { toolCallId: v.string(), toolName: v.string(), providerExecuted: Flag, dynamic: Flag }),
  part("source", {
    sourceType: v.string(),
    id: v.string(),
    url: Text,
    title: Text,
    mediaType: Text,
    filename: Text,
    ...metadata,
  }),
  part("file", file),
  part("reasoning-file", file),
  part("custom", { kind: v.string(), ...metadata }),
  part("ping"),
  part("finish-step", {
    finishReason: v.string(),
    rawFinishReason: Text,
    usage: UsageShape,
    response: v.object({ id: Text, timestamp: Any, modelId: Text }),
    performance: v.optional(AnyObject),
    ...metadata,
  }),
  part("abort", { reason: Text }),
  part("finish", { finishReason: v.string(), usage: UsageShape, totalUsage: UsageShape }),
  part("error", { error: v.string(), detail: Text }),
]);
export const StreamEventShape: v.GenericSchema = v.pipe(v.union(Object.values(EventShapes)), v.title("AgentEvent"));
