import { toJsonSchema, type JsonSchema } from "../core/json-schema.ts";
import { isSchema } from "../core/schema.ts";
import type { AgentDefinition } from "./define.ts";
import { isAgentTool, isSdkSchema, isWorkflowTool, type AnyTool } from "./tool.ts";
import { describeTool, type FindWorkflow } from "./tools/describe-tool.ts";
import type { ToolsByName } from "./tools/check-tools.ts";

export interface AgentSummary {
  id: string;
  name: string;
  description: string;
  model: string;
  status: "idle" | "running";
  /** Null if a function returns them that has not been called. */
  tools: { name: string; description: string }[] | null;
}
export interface ToolDetail {
  name: string;
  description: string;
  inputSchema: JsonSchema;
  /** The workflow that the tool starts. */
  workflowId?: string;
  /** The agent that the tool asks. */
  agentId?: string;
}
export interface AgentDetail extends AgentSummary {
  tools: ToolDetail[] | null;
  maxSteps: number;
  memory: boolean;
  /** The system prompt, if it is a string. Not public: the route removes it for callers who must not see it. */
  instructions?: string | undefined;
}

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

export function toSummary({ id, name, description, model, status, tools }: AgentDetail): AgentSummary {
  return { id, name, description, model, status, tools: tools && tools.map(toToolSummary) };
}

const toToolSummary = ({ name, description }: ToolDetail) => ({ name, description });

function toInputSchema({ inputSchema }: Pick<AnyTool, "inputSchema">, warn: (reason: string) => void): JsonSchema {
  if (isSchema(inputSchema)) return toJsonSchema(inputSchema, "input", warn);
  if (isSdkSchema(inputSchema) && !(inputSchema.jsonSchema instanceof Promise)) {
    return inputSchema.jsonSchema as JsonSchema; // shown as the author wrote it
  }
  warn("it is created on first use");
  return {};
}
