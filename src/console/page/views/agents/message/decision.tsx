import { useId, useState } from "preact/hooks";
import { act } from "../../../parts/notices.tsx";
import { canAct, whyNot } from "../../../session.ts";
import type { ChatSession } from "../chat/chat-session.ts";

/** The buttons that approve or deny a tool call. */
export function Decision({ session, approvalId, name }: { session: ChatSession; approvalId: string; name: string }) {
  const id = useId();
  const [reason, setReason] = useState("");
  const [isSent, setSent] = useState(false);
  const decide = async (approved: boolean): Promise<void> => {
    setSent(true);
    await act(approved ? `Approved ${name}` : `Denied ${name}`, () => session.decide(approvalId, approved, reason));
    setSent(false);
  };
  const common = { type: "button", disabled: isSent || !canAct(), title: whyNot() } as const;
  return (
    <div class="decision">
      <div class="field">
        <label for={id}>
          Reason<small> optional</small>
        </label>
        <input
          id={id}
          type="text"
          maxLength={1_000}
          disabled={!canAct()}
          value={reason}
          onInput={({ currentTarget }) => setReason(currentTarget.value)}
        />
      </div>
      <div class="actions">
        <button {...common} class="first" onClick={() => void decide(true)}>
          Approve
        </button>
        <button {...common} onClick={() => void decide(false)}>
          Deny
        </button>
      </div>
    </div>
  );
}
