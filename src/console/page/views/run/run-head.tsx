import { Button } from "../../parts/button.tsx";
import { useState } from "preact/hooks";
import { cancel, isFailed, isOpen, retry, type ExecutionState } from "../../executions.ts";
import { CancelDialog } from "../../parts/cancel-dialog.tsx";
import { act } from "../../parts/notices.tsx";
import { Status } from "../../parts/status.tsx";
import { Fact, Link, Text, toVisible } from "../../parts/text.tsx";
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
        <Button
          acts
          disabled={!isFailed(state)}
          title={isFailed(state) ? "Continues where it failed" : "Only a failed run can be retried"}
          onClick={() => apply("The run continues", () => retry(state))}
        >
          Retry
        </Button>
        <Button
          acts
          disabled={!isOpen(state)}
          title={isOpen(state) ? "Ends the run" : "The run has ended"}
          onClick={() => setCancelling(true)}
        >
          Cancel …
        </Button>
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
        <Link to={toLink(["workflows", workflowId])} text={workflowId} />
      </li>
      <Fact label="started">
        <Time at={startAt} />
      </Fact>
      <Fact label="ended">{endAt !== null && <Time at={endAt} />}</Fact>
      <Fact label="took">{status !== "suspended" && <Duration from={startAt} to={endAt} />}</Fact>
      <Fact label="user">{typeof userId === "string" && <Text value={userId} />}</Fact>
      <Fact label="conversation">{typeof conversationId === "string" && <Text value={conversationId} />}</Fact>
      <Fact label="fork of">
        {forkedFrom !== undefined && <Link to={runLink(workflowId, forkedFrom)} text={forkedFrom} />}
      </Fact>
      <Fact label="retried by">{retriedBy?.userId !== undefined && <Text value={retriedBy.userId} />}</Fact>
    </ul>
  );
}
