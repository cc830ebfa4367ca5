import { Button } from "../../../parts/button.tsx";
import { useState } from "preact/hooks";
import { conversationUser } from "../../../acting-user.ts";
import { ask, path, toQuery } from "../../../server/api.ts";
import type { Page } from "../../../executions.ts";
import { useLoaded } from "../../../server/load.ts";
import { Copy } from "../../../parts/copy.tsx";
import { Json } from "../../../parts/json.tsx";
import { Show } from "../../../parts/states.tsx";
import { Text, toVisible } from "../../../parts/text.tsx";
import { toDuration } from "../../../parts/time.tsx";
import { toApiError } from "../../../session.ts";

interface ModelMessage {
  readonly role: string;
  readonly content: unknown;
}
interface ModelCall {
  readonly index: number;
  readonly startAt: string;
  /** Null while it runs, as are `finishReason` and `usage`. */
  readonly ms: number | null;
  readonly model: { readonly provider: string; readonly modelId: string };
  readonly prompt?: readonly ModelMessage[];
  /** The number of old messages that were dropped from a long prompt. */
  readonly omittedMessages?: number;
  readonly instructions?: unknown;
  readonly tools?: readonly string[];
  readonly parts: readonly unknown[];
  readonly finishReason: string | null;
  readonly usage: { readonly inputTokens?: number | null; readonly outputTokens?: number | null } | null;
  readonly error?: string;
}
export interface ModelCallsProps {
  readonly agentId: string;
  readonly conversationId: string;
  readonly messageId: string;
  /** True while the answer is being made: the calls are read again at its end. */
  readonly isMade: boolean;
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

function Calls({ agentId, conversationId, messageId, isMade }: ModelCallsProps) {
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const calls = useLoaded(
    async (signal) => {
      const url = path`/agents/${agentId}/conversations/${conversationId}/turns/${messageId}/steps`;
      try {
        const read = (cursor?: string): Promise<Page<ModelCall>> =>
          ask<Page<ModelCall>>(url + toQuery({ userId: conversationUser(), cursor }), { signal });
        const pages = await Promise.all([read(), ...cursors.map(read)]);
        return { items: pages.flatMap(({ items }) => items), nextCursor: pages.at(-1)?.nextCursor ?? null };
      } catch (error) {
        if (toApiError(error).status === 404) return null;
        throw error;
      }
    },
    [messageId, isMade, cursors],
  );
  const next = calls.value?.nextCursor ?? null;
  return (
    <Show of={calls}>
      {(found) =>
        found === null ? (
          <p class="hint">They are no longer kept: the server holds those of the last turns in memory only.</p>
        ) : (
          <>
            <ol>
              {found.items.map((call) => (
                <li key={call.index}>
                  <Call call={call} />
                </li>
              ))}
            </ol>
            {next !== null && (
              <Button class="small" onClick={() => setCursors([...cursors, next])}>
                More
              </Button>
            )}
          </>
        )
      }
    </Show>
  );
}

function Call({ call }: { call: ModelCall }) {
  const { model, ms, usage, finishReason, error, instructions, prompt, omittedMessages, tools, parts } = call;
  return (
    <details class="panel">
      <summary>
        <code>
          <Text value={`${model.provider}/${model.modelId}`} />
        </code>{" "}
        <small>
          {ms === null ? "runs" : toDuration(ms)} · {usage?.inputTokens ?? "?"} input + {usage?.outputTokens ?? "?"}{" "}
          output tokens{finishReason !== null && <> · {<Text value={finishReason} />}</>}
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
          {omittedMessages !== undefined && <p class="hint">The {omittedMessages} oldest messages are left out.</p>}
          <Copy text={() => JSON.stringify(prompt, null, 2)} label="Copy as JSON" />
          {prompt.map((message, index) => (
            <PromptMessage key={index} message={message} isOpen={index === prompt.length - 1} />
          ))}
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
      {parts.map((part, index) => (
        <Content key={index} part={part} />
      ))}
      <h3>Tokens</h3>
      <Json label="Tokens" value={usage} />
    </details>
  );
}

/** A message of a prompt. The last one is open. */
function PromptMessage({ message: { role, content }, isOpen }: { message: ModelMessage; isOpen: boolean }) {
  const parts: readonly unknown[] = Array.isArray(content) ? content : [{ type: "text", text: content }];
  return (
    <details open={isOpen}>
      <summary>
        <Text value={role} /> <small>{toVisible(toText(parts[0])?.slice(0, 80) ?? "")}</small>
      </summary>
      {parts.map((part, index) => (
        <Content key={index} part={part} />
      ))}
    </details>
  );
}

/** A part of a prompt or an answer: a text as it is, anything else as JSON. */
function Content({ part }: { part: unknown }) {
  const text = toText(part);
  return text === undefined ? <Json label="Part" value={part} depth={3} /> : <pre>{toVisible(text)}</pre>;
}

/** Returns the text of a part that has nothing else to show. */
function toText(part: unknown): string | undefined {
  const { type, text } = (part ?? {}) as { type?: unknown; text?: unknown };
  return type === "text" && typeof text === "string" ? text : undefined;
}
