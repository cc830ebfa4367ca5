import { path, toAbsoluteUrl } from "../../server/api.ts";
import type { ExecutionState } from "../../executions.ts";
import { Copy } from "../../parts/copy.tsx";
import { signInState } from "../../session.ts";
import { toCurl, toFetch, toRuntimeCall } from "./commands.ts";

/** The commands that start this run again with the same input. */
export function Again({ state: { workflowId, input, context } }: { state: ExecutionState }) {
  const session = signInState.value;
  const { userId, conversationId: _, ...own } = context;
  const needsToken = session.type === "open" && session.session.auth;
  const command = {
    url: toAbsoluteUrl(path`/workflows/${workflowId}/execute`),
    workflowId,
    input,
    context: own,
    // the token decides the user
    userId: needsToken || typeof userId !== "string" ? undefined : userId,
    needsToken,
  };
  const texts = [
    ["as curl", toCurl(command)],
    ["as TypeScript", toFetch(command)],
    ["as TypeScript, in a step, a tool or a route", toRuntimeCall(command)],
  ] as const;
  return (
    <>
      <p class="hint">Each starts another run with the same input.</p>
      {texts.map(([title, text]) => (
        <section key={title} aria-label={title}>
          <h3>
            {title} <Copy text={text} label="Copy" />
          </h3>
          <pre tabIndex={0}>{text}</pre>
        </section>
      ))}
    </>
  );
}
