import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { ask, path } from "../../../server/api.ts";
import { onChange } from "../../../server/live.ts";
import { useLoaded } from "../../../server/load.ts";
import { executionPath, resume, toBranches, type ExecutionState, type PendingBranch } from "../../../executions.ts";
import { noFields, SchemaForm } from "../../../parts/form.tsx";
import { Json } from "../../../parts/json.tsx";
import { notify } from "../../../parts/notices.tsx";
import { Show } from "../../../parts/states.tsx";
import { Status } from "../../../parts/status.tsx";
import { Text } from "../../../parts/text.tsx";
import { Time } from "../../../parts/time.tsx";
import { runLink } from "../../../place.ts";
import { canAct, whyNot } from "../../../session.ts";
import { findResumeSchema, type WorkflowDefinition } from "../../../workflows.ts";

export interface SuspendedCallProps {
  readonly workflowId: string;
  readonly executionId: string;
  /** True if the call still waits. */
  readonly isOpen: boolean;
  onResumed(): void;
}

/** A call of a `workflowTool`: its run, and the form that resumes it. */
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
  const of = { workflowId, executionId };
  const wait = useLoaded(
    async (signal) => {
      const [state, definition] = await Promise.all([
        ask<ExecutionState>(`${executionPath(of)}/state`, { signal }),
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
  const answer = async (branch: PendingBranch, value: unknown): Promise<void> => {
    await resume(of, branch, value);
    notify("done", "Resumed");
    wait.reload();
    onResumed();
  };
  return (
    <Show of={wait}>
      {({ state, definition }) => (
        <>
          {toBranches(state).map((branch) => (
            <section key={branch.stepId} class="decision" title={whyNot()} aria-label={`Wait of ${branch.stepId}`}>
              <p>
                <Status status={state.status} kind={branch.kind} /> <Text value={branch.reason} />
                <Detail label="event">{branch.event !== undefined && <Text value={branch.event} />}</Detail>
                <Detail label="continues">{branch.wakeAt !== undefined && <Time at={branch.wakeAt} />}</Detail>
                <Detail label="ends">{branch.deadline !== undefined && <Time at={branch.deadline} />}</Detail>
              </p>
              {branch.data !== undefined && <Json label="Data of the suspension" value={branch.data} depth={2} />}
              {branch.kind !== "timer" && branch.kind !== "event" && (
                <SchemaForm
                  schema={branch.kind === "person" ? findResumeSchema(definition, branch.stepId) : noFields}
                  submit="Resume"
                  disabled={!canAct()}
                  onSubmit={(value) => answer(branch, value)}
                />
              )}
            </section>
          ))}
        </>
      )}
    </Show>
  );
}

const Detail = ({ label, children }: { label: string; children: ComponentChildren }) =>
  children ? (
    <>
      {" "}
      · {label} {children}
    </>
  ) : null;
