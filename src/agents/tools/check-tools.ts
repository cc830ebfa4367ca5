import { hasJsonSchema, isAgentTool, isWorkflowTool, type AnyTool } from "../tool.ts";

/** The tools of an agent by name. */
export type ToolsByName = Readonly<Record<string, AnyTool>>;

/** The workflows and agents that are served. */
export interface Served {
  hasWorkflow(id: string): boolean;
  hasAgent(id: string): boolean;
}

/** Throws a `TypeError` if these are not tools by name, or if the input schema of one has no JSON Schema. */
export function checkTools(agentId: string, tools: unknown): asserts tools is ToolsByName {
  const refuse = (key: string, expected: string): never => {
    throw new TypeError(`agent ${agentId}: ${key}: expected ${expected}`);
  };
  if (!isRecord(tools) || !Object.values(tools).every(isTool)) refuse("tools", "an object of tools by name");
  const noSchema = Object.entries(tools as ToolsByName).find(([, tool]) => !hasJsonSchema(tool));
  if (noSchema) refuse(`tools.${noSchema[0]}.inputSchema`, "a schema with a JSON Schema, or jsonSchema()");
}

/** Finds a tool whose workflow or agent is not served. */
export function findMissingTarget(
  tools: ToolsByName,
  { hasWorkflow, hasAgent }: Served,
): { readonly tool: string; readonly target: string } | undefined {
  for (const [name, tool] of Object.entries(tools)) {
    if (isWorkflowTool(tool) && !hasWorkflow(tool.workflowId))
      return { tool: name, target: `workflow ${tool.workflowId}` };
    if (isAgentTool(tool) && !hasAgent(tool.agentId)) return { tool: name, target: `agent ${tool.agentId}` };
  }
  return undefined;
}

const isTool = (value: unknown): boolean => isRecord(value) && ("inputSchema" in value || value["type"] === "provider");
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  (typeof value === "object" || typeof value === "function") && value !== null && !Array.isArray(value);
