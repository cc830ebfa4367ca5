import { useState } from "preact/hooks";
import { Button } from "../../../parts/button.tsx";
import { TextField } from "../../../parts/field.tsx";
import { act } from "../../../parts/notices.tsx";
import { canAct } from "../../../session.ts";
import type { ChatSession } from "../chat/chat-session.ts";

/** The buttons that approve or deny a tool call. */
export function Decision({ session, approvalId, name }: { session: ChatSession; approvalId: string; name: string }) {
  const [reason, setReason] = useState("");
  const [isSent, setSent] = useState(false);
  const decide = async (approved: boolean): Promise<void> => {
    setSent(true);
    await act(approved ? `Approved ${name}` : `Denied ${name}`, () => session.decide(approvalId, approved, reason));
    setSent(false);
  };
  return (
    <div class="decision">
      <TextField
        label="Reason"
        hint="optional"
        maxLength={1_000}
        disabled={!canAct()}
        value={reason}
        onText={setReason}
      />
      <div class="actions">
        <Button class="first" acts disabled={isSent} onClick={() => void decide(true)}>
          Approve
        </Button>
        <Button acts disabled={isSent} onClick={() => void decide(false)}>
          Deny
        </Button>
      </div>
    </div>
  );
}
