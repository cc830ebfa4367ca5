import { useRef } from "preact/hooks";
import { isFailed, type ExecutionState } from "../../executions.ts";
import { useLoaded } from "../../server/load.ts";
import { Empty, Show } from "../../parts/states.tsx";
import { place, setQuery } from "../../place.ts";
import { listSteps, type StepView } from "../../step-list.ts";
import { StepDetail } from "./step-detail.tsx";
import type { StepStore } from "./step-store.ts";
import { StepTree } from "./step-tree.tsx";

interface StepsProps {
  readonly state: ExecutionState;
  readonly store: StepStore;
  onChanged(): void;
}

/** The tree of steps, and the one that is selected. The selection is in the place, so that a link leads to a step. */
export function Steps({ state, store, onChanged }: StepsProps) {
  const chosen = place.value.query.get("step") ?? undefined;
  const failing = useFailingStep(state);
  const steps = store.steps.value;
  const selected = chosen ?? failing;
  const from = Date.parse(state.startAt);
  const to = state.endAt === null ? Math.max(Date.now(), from) : Date.parse(state.endAt);
  return (
    <>
      <Show of={{ value: steps, error: store.error.value, reload: () => store.reload() }}>{() => null}</Show>
      {steps?.length === 0 && <Empty>No step has begun.</Empty>}
      {store.isCut.value && <p class="hint">The first {steps?.length} steps.</p>}
      {steps !== undefined && steps.length > 0 && (
        <div class="split">
          <StepTree store={store} span={{ from, to }} selected={selected} onSelect={selectStep} />
          {selected === undefined ? (
            <p class="hint">Select a step to see its attempts and values.</p>
          ) : (
            <StepDetail state={state} store={store} path={selected} onChanged={onChanged} />
          )}
        </div>
      )}
    </>
  );
}

const selectStep = (step: string): void => setQuery({ step });

/**
 * Returns the innermost failed step. It may be in a loop whose items are not read. It stays selected when a retry
 * continues the run.
 */
function useFailingStep(state: ExecutionState): string | undefined {
  const hasFailed = isFailed(state);
  const read = useLoaded(
    async (signal) => (hasFailed ? (await listSteps(state, { status: "error", limit: 50 }, signal)).items : []),
    [hasFailed],
  );
  const failed = read.value?.filter(({ attempts }) => attempts.at(-1)?.error !== undefined) ?? [];
  const byDepth = failed.toSorted((a, b) => toDepth(b) - toDepth(a));
  const last = useRef<string | undefined>(undefined);
  last.current = (byDepth[0] ?? read.value?.at(-1))?.path ?? last.current;
  return last.current;
}
const toDepth = ({ path }: StepView): number => path.split("/").length;
