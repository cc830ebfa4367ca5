import { useState } from "preact/hooks";
import { whyNot } from "../../session.ts";
import { cancel, isFailed, isOpen, retry, type ExecutionState } from "../../executions.ts";
import { CancelDialog } from "../../parts/cancel-dialog.tsx";
import { act } from "../../parts/notices.tsx";
import { Status } from "../../parts/status.tsx";
import { Text, toVisible } from "../../parts/text.tsx";
import { Duration, Time } from "../../parts/time.tsx";
import { runLink, toLink } from "../../place.ts";

/** The facts of a run, and what can be done with it. */
export function RunHead({ state, onChanged }: { state: ExecutionState; onChanged: () => void }) {
  const [isCancelling, setCancelling] = useState(false);
  const { workflowId, executionId, status, cancellation, suspension, error } = state;
  const apply = (done: string, action: () => Promise<unknown>): void => void act(done, action).then(onChanged);
  return (
    <>
      <div class="title">
        <h1>
          <Text value={executionId} />
        </h1>
        <Status status={cancellation ? "cancelled" : status} kind={suspension?.kind} />
        <button
          type="button"
          disabled={!isFailed(state) || whyNot() !== undefined}
          title={whyNot() ?? (isFailed(state) ? "Continues where it failed" : "Only a failed run can be retried")}
          onClick={() => apply("The run continues", () => retry(state))}
        >
          Retry
        </button>
        <button
          type="button"
          disabled={!isOpen(state) || whyNot() !== undefined}
          title={whyNot() ?? (isOpen(state) ? "Ends the run" : "The run has ended")}
          onClick={() => setCancelling(true)}
        >
          Cancel …
        </button>
      </div>
      <Facts state={state} />
      {cancellation && (
        <p class="problem">
          Cancelled <Time at={cancellation.cancelledAt} />
          {cancellation.reason && (
            <>
              : <Text value={cancellation.reason} />
            </>
          )}
        </p>
      )}
      {error !== undefined && !cancellation && <pre class="problem">{toVisible(error)}</pre>}
      {isCancelling && (
        <CancelDialog
          count={1}
          onClose={() => setCancelling(false)}
          onCancel={(reason) => apply(`Cancelled ${executionId}`, () => cancel({ workflowId, executionId }, reason))}
        />
      )}
    </>
  );
}

function Facts({ state }: { state: ExecutionState }) {
  const { workflowId, startAt, endAt, status, context, forkedFrom, retriedBy } = state;
  const { userId, conversationId } = context;
  return (
    <ul class="facts">
      <li>
        <a href={toLink(["workflows", workflowId])}>
          <Text value={workflowId} />
        </a>
      </li>
      <li>
        started <Time at={startAt} />
      </li>
      {endAt !== null && (
        <li>
          ended <Time at={endAt} />
        </li>
      )}
      {status !== "suspended" && (
        <li>
          took <Duration from={startAt} to={endAt} />
        </li>
      )}
      {typeof userId === "string" && (
        <li>
          user <Text value={userId} />
        </li>
      )}
      {typeof conversationId === "string" && (
        <li>
          conversation <Text value={conversationId} />
        </li>
      )}
      {forkedFrom !== undefined && (
        <li>
          fork of{" "}
          <a href={runLink(workflowId, forkedFrom)}>
            <Text value={forkedFrom} />
          </a>
        </li>
      )}
      {retriedBy?.userId !== undefined && (
        <li>
          retried by <Text value={retriedBy.userId} />
        </li>
      )}
    </ul>
  );
}
