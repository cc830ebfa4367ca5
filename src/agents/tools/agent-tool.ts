import * as v from "valibot";
import { cut } from "../../core/cut.ts";
import type { Schema } from "../../core/schema.ts";
import type { Agent } from "../../engine/definition/reference.ts";
import type { AgentId } from "../../engine/runtime.ts";
import { checkToolOptions } from "./tool-options.ts";

/** The options of `agentTool()`. */
export interface AgentToolOptions {
  /** The description for the model: what the other agent can do, and when to ask it. */
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
  const agentId: unknown = typeof agent === "string" ? agent : agent?.id;
  if (typeof agentId !== "string" || (typeof agent === "object" && agent.type !== "agent"))
    throw new TypeError(`agentTool: expected an agent or its id, found ${cut(String(agent))}`);
  const { description, anonymous = false } = checkToolOptions("agentTool", options);
  if (description === undefined) throw new TypeError("agentTool: description is missing");
  return Object.freeze({ type: "agentserve-agent-tool", agentId, description, anonymous, inputSchema: PromptShape });
}

const PromptShape: Schema = v.object({
  prompt: v.pipe(v.string(), v.minLength(1), v.description("The question, with everything that the agent must know")),
});

/** Max agents that wait for each other's answers. */
export const maxNested = 5;
