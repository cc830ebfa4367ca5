import { Button } from "../parts/button.tsx";
import { useState } from "preact/hooks";
import { actingUser } from "../acting-user.ts";
import { ask, path, toQuery } from "../server/api.ts";
import { useLoaded } from "../server/load.ts";
import { SchemaForm } from "../parts/form.tsx";
import { Json } from "../parts/json.tsx";
import { act, notify } from "../parts/notices.tsx";
import { Show } from "../parts/states.tsx";
import { Text, Paragraph } from "../parts/text.tsx";
import { go, toLink } from "../place.ts";
import type { StepDefinition, WorkflowDefinition } from "../workflows.ts";
import { canAct } from "../session.ts";

/** One workflow: a form to run it, and its steps. */
export function Workflow({ id }: { id: string }) {
  const workflow = useLoaded((signal) => ask<WorkflowDefinition>(path`/workflows/${id}`, { signal }), [id]);
  return (
    <Show of={workflow}>
      {(found) => (
        <>
          <h1>
            <Text value={found.name} />
          </h1>
          <Paragraph text={found.purpose} />
          <p>
            <a href={toLink(["runs"], { workflow: id })}>Its runs</a>
          </p>
          <div class="columns">
            <section class="panel" aria-labelledby="run-it">
              <h2 id="run-it">Run it</h2>
              <Start workflow={found} />
            </section>
            <section class="panel" aria-labelledby="steps">
              <h2 id="steps">Steps</h2>
              <Steps steps={found.steps} />
            </section>
          </div>
        </>
      )}
    </Show>
  );
}

/** The form that starts an execution. */
function Start({ workflow: { id, inputSchema } }: { workflow: WorkflowDefinition }) {
  // Without a schema any input is accepted, but there must be one.
  const initial = Object.keys(inputSchema).length === 0 ? {} : undefined;
  const [filled, setFilled] = useState<{ count: number; input: unknown }>({ count: 0, input: initial });
  const fill = (): Promise<unknown> =>
    act("Filled in like the last run", async () => {
      const query = toQuery({ workflowId: id, include: "values", limit: 1 });
      const { items } = await ask<{ items: { input?: unknown }[] }>(`/executions${query}`);
      const [last] = items;
      if (!last) throw new Error("There is no run yet");
      if (last.input === undefined) throw new Error("You may not see the input of the last run");
      setFilled(({ count }) => ({ count: count + 1, input: last.input }));
    });
  const start = async (input: unknown): Promise<void> => {
    const userId = actingUser();
    const body = { ...(input !== undefined && { input }), ...(userId !== undefined && { options: { userId } }) };
    const headers = { prefer: "respond-async" };
    const { executionId } = await ask<{ executionId: string }>(path`/workflows/${id}/execute`, { body, headers });
    notify("done", "Started");
    go(["runs", id, executionId]);
  };
  return (
    <>
      <SchemaForm
        key={filled.count}
        schema={inputSchema}
        initial={filled.input}
        submit="Run"
        disabled={!canAct()}
        onSubmit={start}
      />
      <p>
        <Button class="small" onClick={() => void fill()}>
          Like the last run
        </Button>
      </p>
    </>
  );
}

const schemas = ["inputSchema", "outputSchema", "suspendSchema", "resumeSchema"] as const;

/** The steps as a tree. */
function Steps({ steps }: { steps: readonly StepDefinition[] }) {
  return (
    <ol class="tree">
      {steps.map((step, index) => {
        const shown = schemas.filter((name) => step[name] !== undefined);
        return (
          <li key={`${index} ${step.id}`}>
            <strong>
              <Text value={step.name} />
            </strong>{" "}
            <small>
              {step.type}
              {step.name !== step.id && (
                <>
                  {" "}
                  · <Text value={step.id} />
                </>
              )}
            </small>
            <Paragraph text={step.purpose} class="hint" />
            {shown.length > 0 && (
              <details>
                <summary>Schemas</summary>
                {shown.map((name) => (
                  <div key={name}>
                    <small>{name}</small>
                    <Json label={`${name} of ${step.id}`} value={step[name]} depth={3} />
                  </div>
                ))}
              </details>
            )}
            {step.steps && step.steps.length > 0 && <Steps steps={step.steps} />}
          </li>
        );
      })}
    </ol>
  );
}
