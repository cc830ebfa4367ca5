import { useState } from "preact/hooks";
import { Question } from "./dialog.tsx";
import { TextField } from "./field.tsx";

interface CancelProps {
  readonly count: number;
  onCancel(reason: string): void;
  onClose(): void;
}

/** Asks whether executions are cancelled, and why. */
export function CancelDialog({ count, onCancel, onClose }: CancelProps) {
  const [reason, setReason] = useState("");
  const runs = count === 1 ? "run" : `${count} runs`;
  return (
    <Question
      title={`Cancel ${count === 1 ? "this run" : runs}?`}
      submit={`Cancel ${runs}`}
      close={`Keep ${count === 1 ? "it" : "them"}`}
      onSubmit={() => onCancel(reason.trim())}
      onClose={onClose}
    >
      <p>Steps in flight are aborted. A cancelled run cannot be resumed or retried.</p>
      <TextField label="Reason" hint="optional" value={reason} onText={setReason} />
    </Question>
  );
}
