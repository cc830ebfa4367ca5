import { toJsonSchema, type JsonSchema } from "../core/json-schema.ts";
import { isSchema } from "../core/schema.ts";
import type { AgentDefinition } from "./define.ts";
import { isAgentTool, isSdkSchema, isWorkflowTool, type AnyTool } from "./tool.ts";
import { describeTool, type FindWorkflow } from "./tools/describe-tool.ts";

export interface AgentSummary {
  id: string;
  name: string;
  description: string;
  model: string;
  status: "idle" | "running";
  tools: { name: string; description: string }[];
}
interface ToolDetail {
  name: string;
  description: string;
  inputSchema: JsonSchema;
  /** The workflow that the tool starts. */
  workflowId?: string;
  /** The agent that the tool asks. */
  agentId?: string;
}
export interface AgentDetail extends AgentSummary {
  tools: ToolDetail[];
  maxSteps: number;
  memory: boolean;
  /** The system prompt, if it is a string. Not public: the route removes it for callers who must not see it. */
  instructions?: string | undefined;
}

/** Describes an agent for `GET /agents/:id`. Called once per load of the config. */
export function describeAgent(
  agent: AgentDefinition,
  warn: (message: string) => void,
  findWorkflow: FindWorkflow,
): AgentDetail {
  const { id, name, description, model, maxSteps, memory, instructions } = agent;
  const tools = Object.entries(agent.tools).map(([toolName, given]): ToolDetail => {
    const tool = isWorkflowTool(given) || isAgentTool(given) ? describeTool(given, findWorkflow) : given;
    return {
      name: toolName,
      description: typeof tool.description === "string" ? tool.description : "",
      inputSchema: toInputSchema(tool, (reason) =>
        warn(`agent ${id}: the input schema of tool ${toolName} cannot be fully converted to JSON Schema: ${reason}`),
      ),
      ...(isWorkflowTool(given) && { workflowId: given.workflowId }),
      ...(isAgentTool(given) && { agentId: given.agentId }),
    };
  });
  return {
    id,
    name,
    description,
    model: typeof model === "string" ? model : `${model.provider}/${model.modelId}`,
    status: "idle",
    tools,
    maxSteps,
    memory,
    instructions: typeof instructions === "string" ? instructions : undefined,
  };
}

export function toSummary({ id, name, description, model, status, tools }: AgentDetail): AgentSummary {
  return { id, name, description, model, status, tools: tools.map(toToolSummary) };
}

const toToolSummary = (tool: AgentDetail["tools"][number]): AgentSummary["tools"][number] => ({
  name: tool.name,
  description: tool.description,
});

function toInputSchema({ inputSchema }: Pick<AnyTool, "inputSchema">, warn: (reason: string) => void): JsonSchema {
  if (isSchema(inputSchema)) return toJsonSchema(inputSchema, "input", warn);
  if (isSdkSchema(inputSchema) && !(inputSchema.jsonSchema instanceof Promise)) {
    return inputSchema.jsonSchema as JsonSchema; // shown as the author wrote it
  }
  warn("it is created on first use");
  return {};
}
