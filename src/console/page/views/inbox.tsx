import { useEffect } from "preact/hooks";
import { actingUser, canChooseUser } from "../acting-user.ts";
import { Empty } from "../parts/states.tsx";
import { Text } from "../parts/text.tsx";
import {
  hasMoreWaiting,
  leaveForms,
  readWaiting,
  showOlder,
  waitingApprovals,
  waitingEntries,
  waitingError,
} from "../waiting.ts";
import { ApprovalPanel } from "./inbox/approval-panel.tsx";
import { EntryPanel } from "./inbox/entry-panel.tsx";

/** Says whose tool calls are shown. */
function ApprovalHint() {
  const userId = actingUser();
  if (userId === undefined) return <>Those in a conversation of a user appear when the field User names that user.</>;
  return (
    <>
      The tool calls are those of the user <Text value={userId} />.
    </>
  );
}

/** Everything that waits for a person, the oldest first. */
export function Inbox() {
  useEffect(() => leaveForms, []);
  const entries = waitingEntries.value;
  const approvals = waitingApprovals.value;
  const error = waitingError.value;
  const isEmpty = entries?.length === 0 && approvals?.length === 0;
  return (
    <>
      <h1>Inbox</h1>
      {error && (
        <p class="problem" role="alert">
          <Text value={error.message} />{" "}
          <button type="button" class="small" onClick={readWaiting}>
            Try again
          </button>
        </p>
      )}
      {entries === undefined && !error && <p class="hint">Loading …</p>}
      {isEmpty && (
        <Empty>
          Nothing waits for a person. Steps that call <code>suspend()</code> and tool calls that need an approval appear
          here. {canChooseUser() && <ApprovalHint />}
        </Empty>
      )}
      {approvals?.map((approval) => (
        <ApprovalPanel key={approval.approvalId} approval={approval} />
      ))}
      {hasMoreWaiting.value && (
        <p>
          <button type="button" onClick={showOlder}>
            Show older ones
          </button>
        </p>
      )}
      {entries?.map((entry) => (
        <EntryPanel key={entry.key} entry={entry} />
      ))}
    </>
  );
}
