import { Button } from "./button.tsx";
import { useState } from "preact/hooks";
import { whyNot } from "../session.ts";
import { ask } from "../server/api.ts";
import {
  executionPath,
  resume,
  toBranches,
  type ExecutionRef,
  type ExecutionState,
  type PendingBranch,
} from "../executions.ts";
import { useLoaded } from "../server/load.ts";
import { toTruncatedSize } from "../step-list.ts";
import { findResumeSchema, useWorkflow } from "../workflows.ts";
import { noFields, SchemaForm } from "./form.tsx";
import { Json } from "./json.tsx";
import { notify } from "./notices.tsx";
import { Show } from "./states.tsx";
import { Fact, Text } from "./text.tsx";
import { Time } from "./time.tsx";

interface BranchProps {
  readonly of: ExecutionRef;
  readonly branch: PendingBranch;
  readonly disabled?: boolean;
  /** True while another branch runs: the server takes an answer when the execution is suspended again. */
  readonly isRunning?: boolean;
  /** Called when the server has taken the answer. */
  onAnswered(): void;
}

/** The form that continues a branch: the answer of a person, or a button for any other wait. */
export function BranchForm({ isRunning = false, disabled = false, ...rest }: BranchProps) {
  const props = { ...rest, disabled: disabled || isRunning };
  return (
    <div title={whyNot()}>
      {props.branch.kind === "person" ? <AnswerForm {...props} /> : <ContinueForm {...props} />}
      <p class="hint" role="status">
        {isRunning && "The run is running. An answer can be sent when it waits again."}
      </p>
    </div>
  );
}

interface RunBranchProps extends Pick<BranchProps, "branch" | "onAnswered"> {
  readonly state: ExecutionState;
}

/** A branch in the view of its run: its facts and its form. */
export function RunBranch({ state, branch, onAnswered }: RunBranchProps) {
  const isRunning = state.status === "running";
  const onDone = (): void => {
    notify("done", "The run continues");
    onAnswered();
  };
  return (
    <>
      <BranchFacts of={state} branch={branch} />
      <BranchForm of={state} branch={branch} isRunning={isRunning} onAnswered={onDone} />
    </>
  );
}

function AnswerForm({ of, branch, disabled = false, onAnswered }: BranchProps) {
  const workflow = useWorkflow(of.workflowId);
  return (
    <Show of={workflow}>
      {(definition) => (
        <>
          {definition === null && (
            <p class="hint">
              The workflow <Text value={of.workflowId} /> is not served.
            </p>
          )}
          <SchemaForm
            schema={definition && findResumeSchema(definition, branch.stepId)}
            submit="Send answer"
            disabled={disabled || whyNot() !== undefined}
            onSubmit={async (value) => {
              await resume(of, branch, value);
              onAnswered();
            }}
          />
        </>
      )}
    </Show>
  );
}

const continueLabels = { request: "Continue", system: "Continue", timer: "Skip the sleep", event: "Skip the wait" };

/** The steps that may be skipped are known to the server only: its answer says so. */
function ContinueForm({ of, branch, disabled = false, onAnswered }: BranchProps) {
  const label = continueLabels[branch.kind as keyof typeof continueLabels];
  return (
    <SchemaForm
      schema={noFields}
      submit={label}
      disabled={disabled || whyNot() !== undefined}
      onSubmit={async () => {
        await resume(of, branch);
        onAnswered();
      }}
    />
  );
}

/** The facts of a branch: its step, its times, and the data that it shows. */
export function BranchFacts({ of, branch }: { of: ExecutionRef; branch: PendingBranch }) {
  const { stepId, wakeAt, deadline, event, key, data } = branch;
  const size = toTruncatedSize(data);
  return (
    <>
      <ul class="facts">
        <Fact label="step">
          <Text value={stepId} />
        </Fact>
        <Fact label="continues">{wakeAt !== undefined && <Time at={wakeAt} />}</Fact>
        <Fact label="event">
          {event !== undefined && (
            <>
              <Text value={event} /> {key !== undefined && <Key value={key} />}
            </>
          )}
        </Fact>
        <Fact label="deadline">{deadline !== undefined && <Time at={deadline} />}</Fact>
      </ul>
      {size !== undefined && <LargeData of={of} stepId={stepId} size={size} />}
      {data !== undefined && size === undefined && <Json value={data} label="Data" depth={2} />}
    </>
  );
}

const Key = ({ value }: { value: string }) => (
  <>
    with the key <Text value={value} />
  </>
);

/** Data that is too large for a list. It is read on request. */
function LargeData({ of, stepId, size }: { of: ExecutionRef; stepId: string; size: number }) {
  const [isAsked, setAsked] = useState(false);
  const read = useLoaded(
    async (signal) => {
      if (!isAsked) return undefined;
      const state = await ask<ExecutionState>(`${executionPath(of)}/state`, { signal });
      return toBranches(state).find((branch) => branch.stepId === stepId);
    },
    [isAsked],
  );
  if (isAsked) return <Show of={read}>{(branch) => <Json value={branch?.data} label="Data" depth={2} />}</Show>;
  return (
    <p>
      The data is large.{" "}
      <Button class="small" onClick={() => setAsked(true)}>
        Read {Math.ceil(size / 1024).toLocaleString()} KB
      </Button>
    </p>
  );
}
