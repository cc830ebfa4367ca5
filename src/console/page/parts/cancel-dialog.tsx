import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";

/** Asks whether executions are cancelled, and why. */
export function CancelDialog({
  count,
  onCancel,
  onClose,
}: {
  count: number;
  onCancel: (reason: string) => void;
  onClose: () => void;
}) {
  const [reason, setReason] = useState("");
  const runs = count === 1 ? "run" : `${count} runs`;
  return (
    <Dialog title={`Cancel ${count === 1 ? "this run" : runs}?`} onClose={onClose}>
      {(close) => (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            onCancel(reason.trim());
            close();
          }}
        >
          <p>Steps in flight are aborted. A cancelled run cannot be resumed or retried.</p>
          <div class="field">
            <label for="cancel-reason">
              Reason <small>optional</small>
            </label>
            <input
              id="cancel-reason"
              type="text"
              value={reason}
              onInput={({ currentTarget }) => setReason(currentTarget.value)}
            />
          </div>
          <p class="actions">
            <button type="submit" class="first">
              Cancel {runs}
            </button>
            <button type="button" onClick={close}>
              Keep {count === 1 ? "it" : "them"}
            </button>
          </p>
        </form>
      )}
    </Dialog>
  );
}
