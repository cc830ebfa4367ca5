import { Button } from "../../parts/button.tsx";
import { useEffect, useState } from "preact/hooks";
import { isOpen, type ExecutionState } from "../../executions.ts";
import { useLoaded } from "../../server/load.ts";
import { RunBranch } from "../../parts/branch-form.tsx";
import { Json } from "../../parts/json.tsx";
import { Show } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Fact, Text, toVisible } from "../../parts/text.tsx";
import { Duration, Time } from "../../parts/time.tsx";
import { listSteps, stepStatuses, toTruncatedSize, type StepAttempt, type StepView } from "../../step-list.ts";
import { ForkButton } from "./fork-button.tsx";
import type { StepStore } from "./step-store.ts";

interface DetailProps {
  readonly state: ExecutionState;
  readonly store: StepStore;
  readonly path: string;
  onChanged(): void;
}

/** One step: attempts, values, error, suspension. Its values are read when it is shown; large ones when they are asked for. */
export function StepDetail({ state, store, path, onChanged }: DetailProps) {
  const listed = store.find(path);
  const [isWhole, setWhole] = useState(false);
  useEffect(() => setWhole(false), [path]);
  const size = (toTruncatedSize(listed?.input) ?? 0) + (toTruncatedSize(listed?.output) ?? 0);
  const isCut = listed !== undefined && size > 0 && !isWhole;
  const changeKey = listed && `${listed.status} ${listed.startAt} ${listed.endAt} ${listed.attempts.length}`;
  const read = useLoaded<StepView | undefined>(
    async (signal) => (isCut ? listed : (await listSteps(state, { path }, signal)).items[0]),
    [path, isCut, changeKey, state.status],
  );
  return (
    <section class="step-detail" aria-labelledby="step-title">
      <h2 id="step-title">
        <Text value={path} />
      </h2>
      <Show of={read}>
        {(step) =>
          step?.path === path ? (
            <>
              <StepFacts step={step} />
              {isCut && (
                <p>
                  Some values are large.{" "}
                  <Button class="small" onClick={() => setWhole(true)}>
                    Read {Math.ceil(size / 1024).toLocaleString()} KB
                  </Button>
                </p>
              )}
              {step.parent === null && <ForkButton state={state} store={store} step={step} />}
              {step.count && <LoopFilter path={path} count={step.count} store={store} />}
              {step.suspension && isOpen(state) && (
                <>
                  <h3>
                    <Text value={step.suspension.reason || "Waits"} />
                  </h3>
                  <RunBranch state={state} branch={{ ...step.suspension, stepId: path }} onAnswered={onChanged} />
                </>
              )}
              <Attempts attempts={step.attempts} />
              {step.redacted && <p class="hint">The values are redacted.</p>}
              <Value title="Input" value={step.input} />
              <Value title="Output" value={step.output} />
            </>
          ) : (
            !read.isLoading && <p class="hint">This step has not begun.</p>
          )
        }
      </Show>
    </section>
  );
}

function StepFacts({ step: { type, status, suspension, startAt, endAt, nextAttemptAt } }: { step: StepView }) {
  return (
    <ul class="facts">
      <li>
        <Status status={status} kind={suspension?.kind} />
      </li>
      <li>{type}</li>
      <Fact label="began">
        <Time at={startAt} />
      </Fact>
      <Fact label="took">
        <Duration from={startAt} to={endAt} />
      </Fact>
      <Fact label="next attempt">{nextAttemptAt !== undefined && <Time at={nextAttemptAt} />}</Fact>
    </ul>
  );
}

interface LoopProps {
  readonly path: string;
  readonly count: NonNullable<StepView["count"]>;
  readonly store: StepStore;
}

/** Limits the items of a loop to a status. */
function LoopFilter({ path, count, store }: LoopProps) {
  const only = store.loops.value.get(path)?.only;
  const isShown = store.loops.value.has(path);
  return (
    <div class="actions" role="group" aria-label="Items of the loop">
      <Button class="small" aria-pressed={isShown && !only} onClick={() => store.openLoop(path)}>
        {count.total} {count.total === 1 ? "item" : "items"}
      </Button>
      {stepStatuses.map((status) => {
        const amount = count[status];
        return (
          amount !== undefined && (
            <button
              key={status}
              type="button"
              class="small"
              aria-pressed={only === status}
              onClick={() => store.openLoop(path, status)}
            >
              {amount} {status}
            </button>
          )
        );
      })}
    </div>
  );
}

/** The attempts that have failed: the last one, and the earlier ones on request. */
function Attempts({ attempts }: { attempts: readonly StepAttempt[] }) {
  const [last, ...earlier] = attempts.filter(({ error }) => error !== undefined).toReversed();
  if (!last) return null;
  return (
    <>
      <Failure attempt={last} />
      {earlier.length > 0 && (
        <details>
          <summary>
            {earlier.length} earlier {earlier.length === 1 ? "attempt" : "attempts"} failed
          </summary>
          {earlier.map((attempt) => (
            <Failure key={attempt.startAt + attempt.attempt} attempt={attempt} />
          ))}
        </details>
      )}
    </>
  );
}

function Failure({ attempt: { attempt, startAt, endAt, error = "", frame } }: { attempt: StepAttempt }) {
  return (
    <>
      <h3>
        Attempt {attempt} failed <Time at={endAt ?? startAt} />
        {endAt !== null && (
          <small>
            {" "}
            after <Duration from={startAt} to={endAt} />
          </small>
        )}
      </h3>
      <pre class="problem">{toVisible(error)}</pre>
      {frame !== undefined && (
        <pre class="frame" tabIndex={0} aria-label="Code">
          {toVisible(frame)}
        </pre>
      )}
    </>
  );
}

function Value({ title, value }: { title: string; value: unknown }) {
  const size = toTruncatedSize(value);
  if (value === undefined) return null;
  return (
    <>
      <h3>{title}</h3>
      {size === undefined ? (
        <Json value={value} label={title} depth={2} />
      ) : (
        <p class="hint">{size.toLocaleString()} bytes, not read yet.</p>
      )}
    </>
  );
}
