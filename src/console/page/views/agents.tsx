import { Agent } from "./agents/agent.tsx";
import { AgentList } from "./agents/agent-list.tsx";
import { Chat } from "./agents/chat/chat.tsx";

/** The agents, one of them, or one conversation with it. */
export function Agents({
  agentId,
  conversationId,
}: {
  agentId: string | undefined;
  conversationId: string | undefined;
}) {
  if (agentId === undefined) return <AgentList />;
  if (conversationId === undefined) return <Agent key={agentId} id={agentId} />;
  return <Chat key={`${agentId}/${conversationId}`} agentId={agentId} id={conversationId} />;
}
