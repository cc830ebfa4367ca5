import { useEffect } from "preact/hooks";
import { ask, path } from "../../../server/api.ts";
import { onChange, type ExecutionStatus, type SuspensionKind } from "../../../server/live.ts";
import { useLoaded } from "../../../server/load.ts";
import { SchemaForm } from "../../../parts/form.tsx";
import { Json } from "../../../parts/json.tsx";
import { notify } from "../../../parts/notices.tsx";
import { Show } from "../../../parts/states.tsx";
import { Status } from "../../../parts/status.tsx";
import { Text } from "../../../parts/text.tsx";
import { Time } from "../../../parts/time.tsx";
import { runLink } from "../../../place.ts";
import { canAct, whyNot } from "../../../session.ts";
import { findResumeSchema, type WorkflowDefinition } from "../../../workflows.ts";

interface Branch {
  readonly stepId: string;
  readonly kind: SuspensionKind;
  readonly reason: string;
  readonly data?: unknown;
  readonly wakeAt?: string;
  readonly deadline?: string;
  readonly event?: string;
}
interface State {
  readonly status: ExecutionStatus;
  readonly suspension?: Branch & { readonly pending?: readonly Branch[] };
}

export interface SuspendedCallProps {
  readonly workflowId: string;
  readonly executionId: string;
  /** True if the call still waits. */
  readonly isOpen: boolean;
  onResumed(): void;
}

/** A call of a `workflowTool`: the run that it waits for, and the form that resumes it. */
export function SuspendedCall({ workflowId, executionId, isOpen, onResumed }: SuspendedCallProps) {
  return (
    <>
      <p>
        <a href={runLink(workflowId, executionId)}>
          Run of <Text value={workflowId} />
        </a>
      </p>
      {isOpen && <Wait workflowId={workflowId} executionId={executionId} onResumed={onResumed} />}
    </>
  );
}

function Wait({ workflowId, executionId, onResumed }: Omit<SuspendedCallProps, "isOpen">) {
  const run = path`/workflows/${workflowId}/executions/${executionId}`;
  const wait = useLoaded(
    async (signal) => {
      const [state, definition] = await Promise.all([
        ask<State>(`${run}/state`, { signal }),
        ask<WorkflowDefinition>(path`/workflows/${workflowId}`, { signal }),
      ]);
      return { state, definition };
    },
    [executionId],
  );
  useEffect(
    () =>
      onChange((change) => {
        if (change.executionId !== executionId) return;
        wait.reload();
        // The server begins the turn that continues the answer.
        if (change.status === "completed" || change.status === "error") onResumed();
      }),
    [executionId],
  );
  const resume = async (branch: Branch, resumeData: unknown): Promise<void> => {
    const body = { resumeData, ...(branch.kind !== "system" && { options: { stepId: branch.stepId } }) };
    await ask(`${run}/resume`, { body, headers: { prefer: "respond-async" } });
    notify("done", "Resumed");
    wait.reload();
    onResumed();
  };
  return (
    <Show of={wait}>
      {({ state: { status, suspension }, definition }) => (
        <>
          {(suspension?.pending ?? (suspension ? [suspension] : [])).map((branch) => (
            <section key={branch.stepId} class="decision" title={whyNot()} aria-label={`Wait of ${branch.stepId}`}>
              <p>
                <Status status={status} kind={branch.kind} /> <Text value={branch.reason} />
                {branch.event !== undefined && (
                  <>
                    {" "}
                    · event <Text value={branch.event} />
                  </>
                )}
                {branch.wakeAt !== undefined && (
                  <>
                    {" "}
                    · continues <Time at={branch.wakeAt} />
                  </>
                )}
                {branch.deadline !== undefined && (
                  <>
                    {" "}
                    · ends <Time at={branch.deadline} />
                  </>
                )}
              </p>
              {branch.data !== undefined && <Json label="Data of the suspension" value={branch.data} depth={2} />}
              {branch.kind !== "timer" && branch.kind !== "event" && (
                <SchemaForm
                  schema={
                    branch.kind === "person"
                      ? findResumeSchema(definition, branch.stepId)
                      : { type: "object", properties: {} }
                  }
                  submit="Resume"
                  disabled={!canAct()}
                  onSubmit={(value) => resume(branch, value)}
                />
              )}
            </section>
          ))}
        </>
      )}
    </Show>
  );
}
