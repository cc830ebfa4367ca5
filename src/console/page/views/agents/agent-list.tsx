import { ask } from "../../server/api.ts";
import { useLoaded } from "../../server/load.ts";
import { ShowList } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Text, Link, Paragraph } from "../../parts/text.tsx";
import { toLink } from "../../place.ts";
import type { AgentSummary } from "./agent-detail.ts";

/** The agents, with their models and tools. */
export function AgentList() {
  const agents = useLoaded((signal) => ask<AgentSummary[]>("/agents", { signal }), []);
  const empty = (
    <>
      None yet: create one with <code>defineAgent()</code> in a file in <code>agents/</code>.
    </>
  );
  return (
    <>
      <h1>Agents</h1>
      <ShowList of={agents} empty={empty}>
        {(items) => (
          <div class="columns">
            {items.map((agent) => (
              <AgentCard key={agent.id} agent={agent} />
            ))}
          </div>
        )}
      </ShowList>
    </>
  );
}

function AgentCard({ agent: { id, name, description, model, status, tools } }: { agent: AgentSummary }) {
  return (
    <article class="panel card">
      <h2>
        <Link to={toLink(["agents", id])} text={name} /> {status === "running" && <Status status="running" />}
      </h2>
      <Paragraph text={description} />
      <p class="hint">
        <code>
          <Text value={model} />
        </code>
      </p>
      {tools && tools.length > 0 && (
        <ul class="tags" aria-label="Tools">
          {tools.map((tool) => (
            <li key={tool.name} class="tag" title={tool.description}>
              <Text value={tool.name} />
            </li>
          ))}
        </ul>
      )}
    </article>
  );
}
