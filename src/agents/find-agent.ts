import { type Authorized, admit, type ActionRequest } from "../core/access/authorizer.ts";
import { cut } from "../core/cut.ts";
import { notFound } from "../core/error.ts";
import type { Program } from "../engine/contract/program.ts";
import type { AgentDefinition } from "./define.ts";
import type { AgentDetail } from "./describe.ts";

/** The part of a snapshot that the routes read. */
export interface AgentsOfSnapshot extends Authorized {
  readonly agents: ReadonlyMap<string, RegisteredAgent>;
}
export interface RegisteredAgent {
  /** Runs the turns of its stored conversations. */
  readonly program: Program;
  readonly definition: AgentDefinition;
  readonly detail: AgentDetail;
}

export function findAgent({ agents }: AgentsOfSnapshot, agentId: string): RegisteredAgent {
  const agent = agents.get(agentId);
  if (!agent) throw notFound(`Agent ${cut(agentId)} not found`);
  return agent;
}

/** Returns an agent that the caller may call. Throws or rejects with 403 if `authorize` refuses it. */
export function findCallable(
  request: ActionRequest & { readonly params: { readonly id: string }; readonly snapshot: AgentsOfSnapshot },
): RegisteredAgent | Promise<RegisteredAgent> {
  const { id: agentId } = request.params;
  return admit(request, findAgent(request.snapshot, agentId), { agentId });
}
