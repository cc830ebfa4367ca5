import { Button } from "../../parts/button.tsx";
import { Problem } from "../../parts/states.tsx";
import { useId, useState } from "preact/hooks";
import { actingUser } from "../../acting-user.ts";
import { ask, path, toQuery } from "../../server/api.ts";
import { Json } from "../../parts/json.tsx";
import { notify } from "../../parts/notices.tsx";
import { Fact, Text } from "../../parts/text.tsx";
import { TextField } from "../../parts/field.tsx";
import { Time } from "../../parts/time.tsx";
import { toLink } from "../../place.ts";
import { toApiError, whyNot } from "../../session.ts";
import { dismiss, removeDecided, touch, type Approval } from "../../waiting.ts";

/** A tool call that waits for a person. */
export function ApprovalPanel({ approval }: { approval: Approval }) {
  const { approvalId, agentId, conversationId, userId, toolName, mayReadConversation, isGone = false } = approval;
  const id = useId();
  // Without a provider, the page acts as its user already.
  const user = actingUser() === undefined ? (userId ?? undefined) : undefined;
  const link = mayReadConversation ? toLink(["agents", agentId, conversationId], { user }) : undefined;
  return (
    <article class="panel" aria-labelledby={id} onInput={() => touch(approvalId)}>
      <h2 id={id}>
        May <Text value={agentId} /> call <Text value={toolName} />?
      </h2>
      <ul class="facts">
        {link !== undefined && (
          <li>
            <a href={link}>Conversation</a>
          </li>
        )}
        <Fact label="of">{userId !== null && <Text value={userId} />}</Fact>
        <Fact label="since">
          <Time at={approval.requestedAt} />
        </Fact>
      </ul>
      <Json value={approval.input} label="Input of the tool" depth={2} />
      {isGone && (
        <Problem
          message="This was answered elsewhere, or has ended in the meantime."
          label="Remove"
          onClick={() => dismiss(approvalId)}
        />
      )}
      <DecisionForm approval={approval} link={link} />
    </article>
  );
}

/** The form that approves or denies the call. `link` leads to its conversation. */
function DecisionForm({ approval, link }: { approval: Approval; link: string | undefined }) {
  const { approvalId, userId, toolName, isGone = false } = approval;
  const [reason, setReason] = useState("");
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<string | undefined>();
  const decide = async (approved: boolean): Promise<void> => {
    setSending(true);
    setProblem(undefined);
    try {
      const body = { approved, ...(reason.trim() !== "" && { reason: reason.trim() }) };
      const to = path`/approvals/${approvalId}` + toQuery({ userId: actingUser() ?? userId ?? undefined });
      await ask(to, { body, headers: { prefer: "respond-async" } });
      removeDecided(approvalId);
      const shown = link === undefined ? undefined : { href: link, label: "Show the conversation" };
      notify("done", `The call of ${toolName} was ${approved ? "approved" : "denied"}.`, shown);
    } catch (error) {
      setProblem(toApiError(error).message);
      setSending(false);
    }
  };
  const isDisabled = isSending || isGone || whyNot() !== undefined;
  return (
    <form
      class="schema-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isDisabled) void decide(true);
      }}
    >
      <TextField
        label="Reason"
        hint="optional, told to the model"
        maxLength={1_000}
        value={reason}
        onText={setReason}
      />
      {problem !== undefined && <Problem message={problem} />}
      <p class="actions" title={whyNot()}>
        <button type="submit" class="first" disabled={isDisabled}>
          Approve
        </button>
        <Button disabled={isDisabled} onClick={() => void decide(false)}>
          Deny
        </Button>
      </p>
    </form>
  );
}
