import { Button } from "../parts/button.tsx";
import { useEffect } from "preact/hooks";
import { actingUser, canChooseUser } from "../acting-user.ts";
import { Empty, Show } from "../parts/states.tsx";
import { Text } from "../parts/text.tsx";
import { toLink } from "../place.ts";
import {
  hasMoreApprovals,
  leaveForms,
  olderWaiting,
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
  if (userId === undefined)
    return <>To see the tool calls of one of your users, enter the id of the user in the field User.</>;
  return (
    <>
      The tool calls are those of the user <Text value={userId} />.
    </>
  );
}

/** The number of entries whose forms are open. The others are opened by a click: a thousand forms would be slow. */
const formsAtOnce = 20;

/** Everything that waits for a person, the oldest first. */
export function Inbox() {
  useEffect(() => leaveForms, []);
  const entries = waitingEntries.value;
  const approvals = waitingApprovals.value;
  const isEmpty = entries?.length === 0 && approvals?.length === 0;
  return (
    <>
      <h1>Inbox</h1>
      <Show of={{ value: entries, error: waitingError.value, reload: readWaiting }}>{() => null}</Show>
      {isEmpty && (
        <Empty>
          Nothing waits for a person. Steps that call <code>suspend()</code> and tool calls that need an approval appear
          here. {canChooseUser() && <ApprovalHint />}
        </Empty>
      )}
      {approvals?.map((approval) => (
        <ApprovalPanel key={approval.approvalId} approval={approval} />
      ))}
      {hasMoreApprovals.value && <p class="hint">More tool calls wait: the oldest {approvals?.length} are shown.</p>}
      {olderWaiting.value === "page" && (
        <p>
          <Button onClick={showOlder}>Show older ones</Button>
        </p>
      )}
      {olderWaiting.value === "elsewhere" && (
        <p class="hint">
          The newest {entries?.length.toLocaleString("en")} are shown. The others are in{" "}
          <a href={toLink(["runs"], { status: "suspended", kind: "person" })}>Runs</a>.
        </p>
      )}
      {entries?.map((entry, at) => (
        <EntryPanel key={entry.key} entry={entry} isFirst={at < formsAtOnce} />
      ))}
    </>
  );
}
