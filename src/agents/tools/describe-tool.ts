import type { Schema as SdkSchema } from "ai";
import type { Schema } from "../../core/schema.ts";
import type { WorkflowDefinition } from "../../engine/definition/definition.ts";
import type { AgentTool } from "./agent-tool.ts";
import type { WorkflowTool } from "./workflow-tool.ts";

/** Returns a workflow that is served. */
export type FindWorkflow = (id: string) => WorkflowDefinition | undefined;

interface ToolDescription {
  readonly description: string;
  readonly inputSchema: Schema | SdkSchema<unknown>;
}

/** Describes a tool for a model. The description and the input of a workflow are those of the version that is served now. */
export function describeTool(tool: WorkflowTool | AgentTool, findWorkflow: FindWorkflow): ToolDescription {
  if (tool.type === "agentserve-agent-tool") return tool;
  const workflow = findWorkflow(tool.workflowId);
  return {
    description: tool.description ?? (workflow ? workflow.purpose || workflow.name : tool.workflowId),
    // The cast is safe: such an object is accepted in place of the result of `jsonSchema()`.
    inputSchema: workflow?.inputSchema ?? ({ jsonSchema: anyObject } as SdkSchema<unknown>),
  };
}

/** The input of a workflow without a schema. */
const anyObject = { type: "object", additionalProperties: true } as const;
