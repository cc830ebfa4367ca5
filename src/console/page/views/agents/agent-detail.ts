import type { JsonSchema } from "../../parts/schema.ts";

export interface AgentSummary {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly model: string;
  readonly status: "idle" | "running";
  /** Null if a function returns them that has not been called. */
  readonly tools: readonly { readonly name: string; readonly description: string }[] | null;
}
export interface ToolDetail {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  /** The workflow that the tool starts. */
  readonly workflowId?: string;
  /** The agent that the tool asks. */
  readonly agentId?: string;
}
export interface AgentDetail extends AgentSummary {
  readonly tools: readonly ToolDetail[] | null;
  readonly maxSteps: number;
  readonly memory: boolean;
  readonly instructions?: string;
}
