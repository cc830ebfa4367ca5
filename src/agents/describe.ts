import type { Schema as SdkSchema } from "ai";
import { toJsonSchema, type JsonSchema } from "../core/schemas/json-schema.ts";
import { isSchema } from "../core/schema.ts";
import type { WorkflowDefinition } from "../engine/definition/definition.ts";
import type { AgentDefinition } from "./define.ts";
import { isAgentTool, isSdkSchema, isWorkflowTool, type AnyTool, type Tool } from "./tool.ts";
import type { ToolsByName } from "./tools/check-tools.ts";
import type { AgentTool, WorkflowTool } from "./tools/target-tools.ts";

export interface AgentSummary {
  id: string;
  name: string;
  description: string;
  model: string;
  status: "idle" | "running";
  /** Null before the first call of the function that returns them. */
  tools: { name: string; description: string }[] | null;
}
export interface ToolDetail {
  name: string;
  description: string;
  inputSchema: JsonSchema;
  workflowId?: string;
  agentId?: string;
}
export interface AgentDetail extends AgentSummary {
  tools: ToolDetail[] | null;
  maxSteps: number;
  memory: boolean;
  /** The system prompt, if it is a string. Not public: the route removes it for callers without the right. */
  instructions?: string | undefined;
}

export type FindWorkflow = (id: string) => WorkflowDefinition | undefined;

interface DescribeOptions {
  readonly warn: (message: string) => void;
  readonly findWorkflow: FindWorkflow;
}

/** Describes an agent for `GET /agents/:id`. Called once per load of the config. */
export function describeAgent(agent: AgentDefinition, options: DescribeOptions): AgentDetail {
  const { id, name, description, model, maxSteps, memory, instructions, tools } = agent;
  return {
    id,
    name,
    description,
    model: typeof model === "string" ? model : `${model.provider}/${model.modelId}`,
    status: "idle",
    tools: typeof tools === "function" ? null : describeTools(id, tools, options),
    maxSteps,
    memory,
    instructions: typeof instructions === "string" ? instructions : undefined,
  };
}

export function describeTools(
  agentId: string,
  tools: ToolsByName,
  { warn, findWorkflow }: DescribeOptions,
): ToolDetail[] {
  return Object.entries(tools).map(([name, given]): ToolDetail => {
    const tool = isWorkflowTool(given) || isAgentTool(given) ? describeTool(given, findWorkflow) : given;
    return {
      name,
      description: typeof tool.description === "string" ? tool.description : "",
      inputSchema: toInputSchema(tool, (reason) =>
        warn(`agent ${agentId}: the input schema of tool ${name} cannot be fully converted to JSON Schema: ${reason}`),
      ),
      ...(isWorkflowTool(given) && { workflowId: given.workflowId }),
      ...(isAgentTool(given) && { agentId: given.agentId }),
    };
  });
}

/** Describes a tool for a model. A workflow is described by the version that is served now. */
export function describeTool(
  tool: WorkflowTool | AgentTool,
  findWorkflow: FindWorkflow,
): Pick<Tool, "description" | "inputSchema"> {
  if (tool.type === "agentserve-agent-tool") return tool;
  const workflow = findWorkflow(tool.workflowId);
  return {
    description: tool.description ?? (workflow ? workflow.purpose || workflow.name : tool.workflowId),
    // The cast is safe: the SDK accepts such an object like a result of `jsonSchema()`.
    inputSchema: workflow?.inputSchema ?? ({ jsonSchema: anyObject } as SdkSchema<unknown>),
  };
}
/** The input of a workflow without a schema. */
const anyObject = { type: "object", additionalProperties: true } as const;

const toToolSummary = ({ name, description }: ToolDetail) => ({ name, description });

export function toSummary({ id, name, description, model, status, tools }: AgentDetail): AgentSummary {
  return { id, name, description, model, status, tools: tools && tools.map(toToolSummary) };
}

function toInputSchema({ inputSchema }: Pick<AnyTool, "inputSchema">, warn: (reason: string) => void): JsonSchema {
  if (isSchema(inputSchema)) return toJsonSchema(inputSchema, "input", warn);
  if (isSdkSchema(inputSchema) && !(inputSchema.jsonSchema instanceof Promise)) {
    return inputSchema.jsonSchema as JsonSchema; // shown as the author wrote it
  }
  warn("it is created on first use");
  return {};
}
