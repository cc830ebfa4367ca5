import { useId, useState } from "preact/hooks";
import { actingUser } from "../../acting-user.ts";
import { ask, path, toQuery } from "../../server/api.ts";
import { Json } from "../../parts/json.tsx";
import { notify } from "../../parts/notices.tsx";
import { Text } from "../../parts/text.tsx";
import { Time } from "../../parts/time.tsx";
import { toLink } from "../../place.ts";
import { toApiError, whyNot } from "../../session.ts";
import { removeDecided, touch, type Approval } from "../../waiting.ts";
import { Gone } from "./gone.tsx";

/** A tool call that waits for a person. */
export function ApprovalPanel({ approval }: { approval: Approval }) {
  const {
    approvalId,
    agentId,
    conversationId,
    userId,
    toolName,
    input,
    requestedAt,
    mayReadConversation,
    isGone = false,
  } = approval;
  const id = useId();
  const [reason, setReason] = useState("");
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<string | undefined>();
  // Without a provider, the page acts as its user already.
  const user = actingUser() === undefined ? (userId ?? undefined) : undefined;
  const link = toLink(["agents", agentId, conversationId], { user });
  const decide = async (approved: boolean): Promise<void> => {
    setSending(true);
    setProblem(undefined);
    try {
      const body = { approved, ...(reason.trim() !== "" && { reason: reason.trim() }) };
      const to = path`/approvals/${approvalId}` + toQuery({ userId: actingUser() ?? userId ?? undefined });
      await ask(to, { body, headers: { prefer: "respond-async" } });
      removeDecided(approvalId);
      const shown = mayReadConversation ? { href: link, label: "Show the conversation" } : undefined;
      notify("done", `The call of ${toolName} was ${approved ? "approved" : "denied"}.`, shown);
    } catch (error) {
      setProblem(toApiError(error).message);
      setSending(false);
    }
  };
  const isDisabled = isSending || isGone || whyNot() !== undefined;
  return (
    <article class="panel" aria-labelledby={id} onInput={() => touch(approvalId)}>
      <h2 id={id}>
        May <Text value={agentId} /> call <Text value={toolName} />?
      </h2>
      <ul class="facts">
        {mayReadConversation && (
          <li>
            <a href={link}>Conversation</a>
          </li>
        )}
        {userId !== null && (
          <li>
            of <Text value={userId} />
          </li>
        )}
        <li>
          since <Time at={requestedAt} />
        </li>
      </ul>
      <Json value={input} label="Input of the tool" depth={2} />
      {isGone && <Gone entryKey={approvalId}>This was answered elsewhere, or has ended in the meantime.</Gone>}
      <form
        class="schema-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isDisabled) void decide(true);
        }}
      >
        <div class="field">
          <label for={`${id}-reason`}>
            Reason <small>optional, told to the model</small>
          </label>
          <input
            id={`${id}-reason`}
            type="text"
            maxLength={1_000}
            value={reason}
            onInput={({ currentTarget }) => setReason(currentTarget.value)}
          />
        </div>
        {problem !== undefined && (
          <p class="problem" role="alert">
            <Text value={problem} />
          </p>
        )}
        <p class="actions" title={whyNot()}>
          <button type="submit" class="first" disabled={isDisabled}>
            Approve
          </button>
          <button type="button" disabled={isDisabled} onClick={() => void decide(false)}>
            Deny
          </button>
        </p>
      </form>
    </article>
  );
}
