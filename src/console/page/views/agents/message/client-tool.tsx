import { useState } from "preact/hooks";
import { SchemaForm } from "../../../parts/form.tsx";
import { canAct, whyNot } from "../../../session.ts";
import type { ChatSession } from "../chat/chat-session.ts";

/** The form for the result of a tool that has no `execute`: a page of the developer would run it. */
export function ClientTool({ session, toolCallId, name }: { session: ChatSession; toolCallId: string; name: string }) {
  const [isError, setError] = useState(false);
  if (toolCallId in session.outputs.value) {
    return <p class="hint">The result is sent when the other calls of this answer have theirs.</p>;
  }
  return (
    <div class="decision" role="group" title={whyNot()} aria-label={`Result of ${name}`}>
      <p>The client runs this tool. Here, you are the client: what does it return?</p>
      <div class="field" data-kind="boolean">
        <label>
          <input type="checkbox" checked={isError} onChange={({ currentTarget }) => setError(currentTarget.checked)} />{" "}
          It fails
        </label>
      </div>
      <SchemaForm
        key={String(isError)}
        schema={isError ? { type: "string", title: "Error" } : { title: "Result" }}
        submit="Send result"
        disabled={!canAct()}
        onSubmit={async (value) => {
          const given = isError ? { errorText: typeof value === "string" ? value : "" } : { output: value ?? null };
          void session.giveOutput(toolCallId, given);
        }}
      />
    </div>
  );
}
