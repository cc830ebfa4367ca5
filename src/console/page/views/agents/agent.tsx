import { ask, path } from "../../server/api.ts";
import { useLoaded } from "../../server/load.ts";
import { Json } from "../../parts/json.tsx";
import { Empty, Show } from "../../parts/states.tsx";
import { Link, Paragraph, Text, toCount, toVisible } from "../../parts/text.tsx";
import { toLink } from "../../place.ts";
import type { AgentDetail, ToolDetail } from "./agent-detail.ts";
import { conversationChanges } from "./conversation.ts";
import { ConversationList } from "./conversation-list.tsx";

/** An agent: its conversations, instructions, tools, and the tokens of today. */
export function Agent({ id }: { id: string }) {
  const agent = useLoaded((signal) => ask<AgentDetail>(path`/agents/${id}`, { signal }), [id]);
  return (
    <>
      <p>
        <a href={toLink(["agents"])}>Agents</a>
      </p>
      <Show of={agent}>
        {({ name, description, model, memory, maxSteps, instructions, tools }) => (
          <>
            <h1>
              <Text value={name} />
            </h1>
            <Paragraph text={description} />
            <p class="hint">
              <code>
                <Text value={model} />
              </code>{" "}
              · at most {maxSteps} model calls in a turn{!memory && " · stores no conversations"}
            </p>
            <div class="columns">
              <ConversationList agentId={id} memory={memory} />
              <div>
                <UsageOfToday id={id} />
                <h2>Instructions</h2>
                {instructions === undefined ? (
                  <p class="hint">
                    A function makes them for each call: open the model calls of an answer to see them.
                  </p>
                ) : (
                  <pre>{toVisible(instructions)}</pre>
                )}
                <h2>Tools</h2>
                {!tools && <p class="hint">A function returns them at the first call of the agent.</p>}
                {tools?.length === 0 && <Empty>None.</Empty>}
                {tools?.map((tool) => (
                  <ToolView key={tool.name} tool={tool} />
                ))}
              </div>
            </div>
          </>
        )}
      </Show>
    </>
  );
}

function ToolView({ tool: { name, description, inputSchema, workflowId, agentId } }: { tool: ToolDetail }) {
  return (
    <details class="panel tool">
      <summary>
        <strong>
          <Text value={name} />
        </strong>{" "}
        <span class="hint">
          <Text value={description} />
        </span>
      </summary>
      {workflowId !== undefined && (
        <p>
          Starts the workflow <Link to={toLink(["workflows", workflowId])} text={workflowId} />.
        </p>
      )}
      {agentId !== undefined && (
        <p>
          Asks the agent <Link to={toLink(["agents", agentId])} text={agentId} />.
        </p>
      )}
      <Json label={`Input schema of ${name}`} value={inputSchema} depth={3} />
    </details>
  );
}

interface Usage {
  readonly items: readonly {
    readonly calls: number;
    readonly inputTokens: number;
    readonly outputTokens: number;
    readonly cost?: number;
  }[];
}

/** The tokens of the current UTC day, as the server counts them. */
function UsageOfToday({ id }: { id: string }) {
  const day = new Date().toISOString().slice(0, 10);
  const changes = conversationChanges.value;
  const usage = useLoaded(
    (signal) => ask<Usage>(path`/agents/${id}/usage` + `?since=${day}&until=${day}`, { signal }),
    [id, day, changes],
  );
  return (
    <>
      <h2>Usage today</h2>
      <Show of={usage}>
        {({ items: [today] }) =>
          today ? (
            <p>
              {toCount(today.calls, "model call")}, {today.inputTokens.toLocaleString("en")} input tokens,{" "}
              {today.outputTokens.toLocaleString("en")} output tokens
              {today.cost !== undefined && `, cost ${today.cost}`}
            </p>
          ) : (
            <Empty>No model was called.</Empty>
          )
        }
      </Show>
    </>
  );
}
