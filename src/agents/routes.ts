import * as v from "valibot";
import { type Identity } from "../core/caller.ts";
import { defineRoute, type Route } from "../http/route.ts";
import type { Agents } from "./agents.ts";
import { approvalRoutes } from "./approvals/routes.ts";
import { callErrors, callRoutes } from "./call-routes.ts";
import { conversationRoutes } from "./conversations/routes.ts";
import { toSummary, type AgentDetail } from "./describe.ts";
import { findAgent, type AgentsOfSnapshot, type RegisteredAgent } from "./find-agent.ts";
import { modelCallRoutes } from "./model-calls/routes.ts";
import { DetailShape, SummaryShape } from "./shapes.ts";
import { turnRoutes } from "./turns/routes.ts";

export interface AgentRoutesOptions {
  readonly agents: Agents;
  readonly isDev: boolean;
}

export function agentRoutes({ agents, isDev }: AgentRoutesOptions): readonly Route<AgentsOfSnapshot>[] {
  const toDetail = ({ definition, detail }: RegisteredAgent): AgentDetail => {
    const status = agents.calls.running(detail.id) > 0 ? "running" : "idle";
    return { ...detail, tools: detail.tools ?? agents.calls.prepared.loadedTools(definition), status };
  };

  return [
    defineRoute({
      method: "GET",
      path: "/agents",
      summary: "List agents",
      description: "Each with its model, its tools and its status.",
      access: "public",
      responses: { 200: v.array(SummaryShape) },
      handle: ({ snapshot }) => [...snapshot.agents.values()].map((agent) => toSummary(toDetail(agent))),
    }),
    defineRoute({
      method: "GET",
      path: "/agents/:id",
      summary: "Get an agent and its tools",
      description:
        "The instructions are included for callers with a token who may call the agent, and without an authentication provider under `agentserve dev`.",
      access: "public",
      responses: { 200: DetailShape },
      errors: { 404: callErrors[404] },
      async handle({ params, snapshot, identity }) {
        const { instructions, ...detail } = toDetail(findAgent(snapshot, params.id));
        const isShown = identity.checked ? await mayCall(snapshot, identity, params.id) : isDev;
        return isShown ? { ...detail, instructions } : detail;
      },
    }),
    ...callRoutes(agents),
    ...turnRoutes(agents),
    ...conversationRoutes(agents),
    ...modelCallRoutes(agents, isDev),
    ...approvalRoutes(agents),
  ];
}

/** Returns true if an authenticated caller may call an agent, and so may see its instructions. */
async function mayCall({ authorizer }: AgentsOfSnapshot, { caller }: Identity, agentId: string): Promise<boolean> {
  if (!caller) return false;
  return (await authorizer?.ask({ action: "agent.call", user: caller.user, agentId })) ?? true;
}
