import { type Clock, within } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import { prepareAgent, type PreparedAgent } from "./call/prepare.ts";
import type { AgentDefinition } from "./define.ts";
import { describeTools, type ToolDetail } from "./describe.ts";
import type { ModelLimits } from "./models/model-stream.ts";
import { checkTools, findMissingTarget, type Served, type ToolsByName } from "./tools/check-tools.ts";
import type { ToolTargets } from "./tools/outside.ts";

export interface PreparedAgentsParts {
  readonly limits: ModelLimits;
  readonly root: string;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly targets: Pick<ToolTargets, "findWorkflow" | "findAgent">;
}

/** The agents as the AI SDK needs them. Each is prepared at its first call. */
export class PreparedAgents {
  readonly #parts: PreparedAgentsParts;
  readonly #prepared = new WeakMap<AgentDefinition, Promise<PreparedAgent>>();
  readonly #loadedTools = new WeakMap<AgentDefinition, ToolDetail[]>();

  constructor(parts: PreparedAgentsParts) {
    this.#parts = parts;
  }

  prepare(agent: AgentDefinition): Promise<PreparedAgent> {
    const known = this.#prepared.get(agent);
    if (known) return known;
    const { limits, root, clock } = this.#parts;
    const preparing = prepareAgent(agent, { limits, root, loadTools: () => this.#loadTools(agent) });
    this.#prepared.set(agent, preparing);
    clock.hold?.(preparing);
    preparing.catch(() => this.#prepared.delete(agent)); // a missing package may be installed before the next call
    return preparing;
  }

  /** Returns the tools that a function of the agent has returned. Null before its first call. */
  loadedTools(agent: AgentDefinition): ToolDetail[] | null {
    return this.#loadedTools.get(agent) ?? null;
  }

  async #loadTools(agent: AgentDefinition): Promise<ToolsByName> {
    const { logger, targets } = this.#parts;
    const { findWorkflow, findAgent } = targets;
    const served = { hasWorkflow: (id: string) => !!findWorkflow(id), hasAgent: (id: string) => !!findAgent(id) };
    const tools = await loadTools(agent, served);
    if (typeof agent.tools !== "function") return tools;
    const warn = (message: string): void => logger.warn(message);
    this.#loadedTools.set(agent, describeTools(agent.id, tools, { warn, findWorkflow }));
    return tools;
  }
}

/** Time limit of a function that returns tools. */
const maxLoadMs = 30_000;

/** Returns the tools of an agent. A function is called each time: the caller keeps the result. */
export async function loadTools({ id, tools }: AgentDefinition, served: Served): Promise<ToolsByName> {
  if (typeof tools !== "function") return tools;
  const onLate = (): never => {
    throw new Error(`agent ${id}: tools: the function has returned no tools within ${maxLoadMs / 1_000} seconds`);
  };
  const loaded = await within(maxLoadMs, (async () => tools())(), { onLate, keepAlive: false });
  checkTools(id, loaded);
  const missing = findMissingTarget(loaded, served);
  if (missing) throw new TypeError(`agent ${id}: tool ${missing.tool}: there is no ${missing.target}`);
  return Object.freeze({ ...loaded });
}
