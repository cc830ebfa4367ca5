import { useState } from "preact/hooks";
import { ask, path } from "../../api.ts";
import { useLoaded } from "../../load.ts";
import { Json } from "../../parts/json.tsx";
import { Show } from "../../parts/states.tsx";
import { Text } from "../../parts/text.tsx";
import { toDuration } from "../../parts/time.tsx";
import { toVisible } from "../../parts/visible-text.ts";
import { toApiError } from "../../session.ts";

interface ModelCall {
  readonly index: number;
  readonly startAt: string;
  readonly ms: number;
  readonly model: { readonly provider: string; readonly modelId: string };
  readonly prompt?: readonly unknown[];
  readonly instructions?: unknown;
  readonly tools?: readonly string[];
  readonly parts: readonly unknown[];
  readonly finishReason: string;
  readonly usage?: { readonly inputTokens?: number | null; readonly outputTokens?: number | null };
  readonly error?: string;
}
export interface ModelCallsProps {
  readonly agentId: string;
  readonly conversationId: string;
  readonly messageId: string;
}

/** The calls of models that have made an answer. They are read when they are opened. */
export function ModelCalls(props: ModelCallsProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="model-calls" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Model calls</summary>
      {isOpen && <Calls {...props} />}
    </details>
  );
}

function Calls({ agentId, conversationId, messageId }: ModelCallsProps) {
  const calls = useLoaded(
    async (signal) => {
      const url = path`/agents/${agentId}/conversations/${conversationId}/turns/${messageId}/steps`;
      try {
        return (await ask<{ items: ModelCall[] }>(url, { signal })).items;
      } catch (error) {
        if (toApiError(error).status === 404) return null;
        throw error;
      }
    },
    [messageId],
  );
  return (
    <Show of={calls}>
      {(items) =>
        items === null || items.length === 0 ? (
          <p class="hint">They are no longer kept: the server holds those of the last turns in memory only.</p>
        ) : (
          <ol>
            {items.map((call) => (
              <li key={call.index}>
                <Call call={call} />
              </li>
            ))}
          </ol>
        )
      }
    </Show>
  );
}

function Call({ call }: { call: ModelCall }) {
  const { model, ms, usage, finishReason, error, instructions, prompt, tools, parts } = call;
  return (
    <details class="panel">
      <summary>
        <code>
          <Text value={`${model.provider}/${model.modelId}`} />
        </code>{" "}
        <small>
          {toDuration(ms)} · {usage?.inputTokens ?? "?"} input + {usage?.outputTokens ?? "?"} output tokens ·{" "}
          <Text value={finishReason} />
        </small>
      </summary>
      {error !== undefined && <pre class="problem">{toVisible(error)}</pre>}
      {instructions !== undefined && (
        <>
          <h3>Instructions</h3>
          {typeof instructions === "string" ? (
            <pre>{toVisible(instructions)}</pre>
          ) : (
            <Json label="Instructions" value={instructions} depth={2} />
          )}
        </>
      )}
      {prompt ? (
        <>
          <h3>Prompt</h3>
          <Json label="Prompt" value={prompt} depth={3} />
        </>
      ) : (
        <p class="hint">You may not see the prompt.</p>
      )}
      {tools && tools.length > 0 && (
        <p>
          Tools: <Text value={tools.join(", ")} />
        </p>
      )}
      <h3>Parts of the answer</h3>
      <Json label="Parts of the answer" value={parts} depth={3} />
      <h3>Tokens</h3>
      <Json label="Tokens" value={usage ?? null} />
    </details>
  );
}
