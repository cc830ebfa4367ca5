import { useRef, useState } from "preact/hooks";
import { toBranches, type ExecutionState, type PendingBranch } from "../../executions.ts";
import { RunBranch } from "../../parts/branch-form.tsx";
import { Status } from "../../parts/status.tsx";
import { Text } from "../../parts/text.tsx";
import type { StepStore } from "./step-store.ts";

interface WaitsProps {
  readonly state: ExecutionState;
  readonly store: StepStore;
  onChanged(): void;
}

/** The waiting branches of a run, each with its form. While another branch runs, the forms stay. */
export function Waits({ state, store, onChanged }: WaitsProps) {
  const { branches, toKey, answer } = useBranches(state, store);
  const count = state.suspension?.pendingCount ?? branches.length;
  if (branches.length === 0) return null;
  return (
    <section aria-label="Waits">
      {branches.map((branch, index) => (
        <Wait
          key={toKey(branch)}
          state={state}
          branch={branch}
          isFirst={index === 0}
          onAnswered={() => {
            answer(branch);
            onChanged();
          }}
        />
      ))}
      {count > branches.length && (
        <p class="hint">{count - branches.length} more branches wait: they are among the suspended steps.</p>
      )}
    </section>
  );
}

/** Keeps the branches of the last suspension while the run is running, except those that have continued. */
function useBranches(state: ExecutionState, store: StepStore) {
  const last = useRef<readonly PendingBranch[]>([]);
  /** The steps that were answered here, with the start of their wait. A state that was read before still has them. */
  const [answered, setAnswered] = useState<ReadonlyMap<string, string>>(new Map());
  const { suspension, status } = state;
  if (suspension) last.current = toBranches(state);
  const doesWait = ({ stepId, suspendedAt }: PendingBranch): boolean => {
    if (answered.get(stepId) === suspendedAt) return false;
    const step = status === "running" ? store.find(stepId) : undefined; // an item of a loop may not be read
    return !step || step.suspension !== undefined;
  };
  return {
    branches: last.current.filter(doesWait),
    /** The same for as long as the branch waits. A step that waits again has a new form. */
    toKey: ({ stepId }: PendingBranch): string => `${stepId} ${answered.get(stepId)}`,
    answer: ({ stepId, suspendedAt }: PendingBranch): void => setAnswered(new Map(answered).set(stepId, suspendedAt)),
  };
}

interface WaitProps {
  readonly state: ExecutionState;
  readonly branch: PendingBranch;
  readonly isFirst: boolean;
  onAnswered(): void;
}

function Wait({ state, branch, isFirst, onAnswered }: WaitProps) {
  const [isOpen, setOpen] = useState(isFirst);
  return (
    <details class="panel" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <Status status="suspended" kind={branch.kind} />{" "}
        <strong>
          <Text value={branch.reason || branch.stepId} />
        </strong>
      </summary>
      {isOpen && <RunBranch state={state} branch={branch} onAnswered={onAnswered} />}
    </details>
  );
}
