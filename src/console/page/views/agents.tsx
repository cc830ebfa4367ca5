/** Not built yet. */
export function Agents(_: { agentId: string | undefined; conversationId: string | undefined }) {
  return <h1>Agents</h1>;
}
