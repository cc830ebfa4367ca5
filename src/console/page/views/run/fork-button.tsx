import { Button } from "../../parts/button.tsx";
import { useState } from "preact/hooks";
import { fork, type ExecutionState } from "../../executions.ts";
import { act } from "../../parts/notices.tsx";
import { Question } from "../../parts/dialog.tsx";
import { toVisible } from "../../parts/text.tsx";
import { go } from "../../place.ts";
import type { StepView } from "../../step-list.ts";
import { useWorkflow } from "../../workflows.ts";
import type { StepStore } from "./step-store.ts";

interface ForkProps {
  readonly state: ExecutionState;
  readonly store: StepStore;
  readonly step: StepView;
}

/** Forks a run from a top-level step, after a question. Nothing where the user may not fork. */
export function ForkButton({ state, store, step }: ForkProps) {
  const [isAsking, setAsking] = useState(false);
  if (state.mayFork === false) return null;
  const isRunning = state.status === "running";
  return (
    <p>
      <Button
        class="small"
        acts
        disabled={isRunning}
        title={
          isRunning
            ? "A running execution cannot be forked"
            : "Starts another run that begins with this step, with the results of the steps before it"
        }
        onClick={() => setAsking(true)}
      >
        Fork from here …
      </Button>
      {isAsking && <ForkQuestion state={state} store={store} step={step} onClose={() => setAsking(false)} />}
    </p>
  );
}

/** Names the steps that run again: they may charge, ship or send something a second time. */
function ForkQuestion({ state, store, step, onClose }: ForkProps & { onClose(): void }) {
  const workflow = useWorkflow(state.workflowId).value;
  const begun = new Set(store.steps.value?.map(({ path }) => path));
  const order = workflow?.steps.map(({ id }) => id) ?? [];
  const from = order.indexOf(step.path);
  const repeated = order.slice(Math.max(from, 0)).filter((id) => begun.has(id));
  const start = async (): Promise<void> => {
    let id = "";
    const isDone = await act("Started a fork", async () => void ({ executionId: id } = await fork(state, step.path)));
    if (isDone) go(["runs", state.workflowId, id]);
  };
  return (
    <Question
      title={`Fork from ${toVisible(step.path)}?`}
      submit="Fork"
      onSubmit={() => void start()}
      onClose={onClose}
    >
      <p>
        {repeated.length > 0 ? "These steps run again" : "The steps from here on run again"}, as new work: what they
        charge, ship or send happens once more.
      </p>
      {repeated.length > 0 && (
        <ul>
          {repeated.map((id) => (
            <li key={id}>{toVisible(id)}</li>
          ))}
        </ul>
      )}
      {from > 0 && <p>The results of the steps before them are copied, answers and approvals included.</p>}
    </Question>
  );
}
