import { useState } from "preact/hooks";
import { toBranches, type ExecutionState, type PendingBranch } from "../../executions.ts";
import { BranchFacts, BranchForm } from "../../parts/branch-form.tsx";
import { notify } from "../../parts/notices.tsx";
import { Status } from "../../parts/status.tsx";
import { Text } from "../../parts/text.tsx";

/** The branches of a suspended run, each with the form that continues it. */
export function Waits({ state, onChanged }: { state: ExecutionState; onChanged: () => void }) {
  const branches = toBranches(state);
  const count = state.suspension?.pendingCount ?? branches.length;
  return (
    <section aria-label="Waits">
      {branches.map((branch, index) => (
        <Wait key={branch.stepId} state={state} branch={branch} isFirst={index === 0} onChanged={onChanged} />
      ))}
      {count > branches.length && (
        <p class="hint">{count - branches.length} more branches wait: they are among the suspended steps.</p>
      )}
    </section>
  );
}

interface WaitProps {
  readonly state: ExecutionState;
  readonly branch: PendingBranch;
  readonly isFirst: boolean;
  onChanged(): void;
}

function Wait({ state, branch, isFirst, onChanged }: WaitProps) {
  const [isOpen, setOpen] = useState(isFirst);
  return (
    <details class="panel" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <Status status="suspended" kind={branch.kind} />{" "}
        <strong>
          <Text value={branch.reason || branch.stepId} />
        </strong>
      </summary>
      {isOpen && (
        <>
          <BranchFacts of={state} branch={branch} />
          <BranchForm
            of={state}
            branch={branch}
            onAnswered={() => {
              notify("done", "The run continues");
              onChanged();
            }}
          />
        </>
      )}
    </details>
  );
}
