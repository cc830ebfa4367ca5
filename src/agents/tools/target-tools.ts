import * as v from "valibot";
import { cut } from "../../core/cut.ts";
import { isObject } from "../../core/json.ts";
import type { Schema } from "../../core/schema.ts";
import type { Agent, WorkflowReference } from "../../engine/definition/reference.ts";
import type { AgentId, ResultOf, StartOf, WorkflowId } from "../../engine/runtime.ts";

/** The options of `agentTool()`. */
export interface AgentToolOptions {
  /** The description for the model: the abilities of the other agent, and when to ask it. */
  description: string;
  /** Lets callers without a user ask the agent. Without an authentication provider, all callers may. @default false */
  anonymous?: boolean;
}

/** A tool that asks another agent, as returned by `agentTool()`. Frozen. */
export interface AgentTool {
  readonly type: "agentserve-agent-tool";
  readonly agentId: string;
  readonly description: string;
  readonly anonymous: boolean;
  readonly inputSchema: Schema;
  readonly outputSchema?: undefined;
}

/**
 * Makes a tool of an agent. The input is `{ prompt }`, and the output its text. The other agent is shown nothing of the
 * conversation. Throws a `TypeError` if an option is invalid.
 */
export function agentTool(agent: Agent | AgentId, options: AgentToolOptions): AgentTool {
  const agentId = toId("agentTool", "agent", agent);
  const { description, anonymous = false } = checkOptions("agentTool", options);
  if (description === undefined) throw new TypeError("agentTool: description is missing");
  return Object.freeze({ type: "agentserve-agent-tool", agentId, description, anonymous, inputSchema: PromptShape });
}

const PromptShape: Schema = v.object({
  prompt: v.pipe(v.string(), v.minLength(1), v.description("The question, with everything that the agent must know")),
});

/** Max agents that wait for each other's answers. */
export const maxNested = 5;

/** The options of `workflowTool()`. */
export interface WorkflowToolOptions {
  /** The description for the model. @default the purpose of the workflow, or its name */
  description?: string;
  /** Lets callers without a user start the workflow. Without an authentication provider, all callers may. @default false */
  anonymous?: boolean;
}

/** A tool that starts a workflow, as returned by `workflowTool()`. Frozen. */
export interface WorkflowTool<Start = never, Result = unknown> {
  readonly type: "agentserve-workflow-tool";
  readonly workflowId: string;
  /** Undefined for the description of the workflow. */
  readonly description: string | undefined;
  readonly anonymous: boolean;
  /** Always undefined: the workflow has the schema. */
  readonly inputSchema: undefined;
  readonly outputSchema?: undefined;
  /** Used only by the compiler. */
  readonly "~types"?: ((start: Start) => Result) | undefined;
}

/**
 * Makes a tool of a workflow. The tool has the input of the workflow, and the result as output. The execution belongs to the
 * user of the call. Throws a `TypeError` if an option is invalid.
 */
export function workflowTool<Start, Result>(
  workflow: WorkflowReference<Start, Result>,
  options?: WorkflowToolOptions,
): WorkflowTool<Start, Result>;
export function workflowTool<Id extends WorkflowId>(
  workflowId: Id,
  options?: WorkflowToolOptions,
): WorkflowTool<StartOf<Id>, ResultOf<Id>>;
export function workflowTool(
  workflow: WorkflowReference<never, unknown> | string,
  options: WorkflowToolOptions = {},
): WorkflowTool {
  const workflowId = toId("workflowTool", "workflow", workflow);
  const { description, anonymous = false } = checkOptions("workflowTool", options);
  return Object.freeze({
    type: "agentserve-workflow-tool",
    workflowId,
    description,
    anonymous,
    inputSchema: undefined,
  });
}

function toId(
  name: string,
  type: "agent" | "workflow",
  given: Agent | WorkflowReference<never, unknown> | string,
): string {
  const id: unknown = typeof given === "string" ? given : given?.id;
  if (typeof id === "string" && (typeof given === "string" || given.type === type)) return id;
  throw new TypeError(
    `${name}: expected ${type === "agent" ? "an" : "a"} ${type} or its id, found ${cut(String(given))}`,
  );
}

/** Returns the options of a tool. Throws a `TypeError` if one is invalid or unknown. */
function checkOptions<T extends Partial<AgentToolOptions>>(name: string, options: T): T {
  if (!isObject(options)) throw new TypeError(`${name}: options: expected an object`);
  const { description, anonymous, ...rest }: Partial<AgentToolOptions> = options;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw new TypeError(`${name}: unknown option "${cut(unknown)}"`);
  if (description !== undefined && (typeof description !== "string" || description === ""))
    throw new TypeError(`${name}: description: expected a text`);
  if (anonymous !== undefined && typeof anonymous !== "boolean")
    throw new TypeError(`${name}: anonymous: expected true or false`);
  return options;
}
