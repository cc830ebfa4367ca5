import { ask } from "../server/api.ts";
import { useLoaded } from "../server/load.ts";
import { Empty, Show } from "../parts/states.tsx";
import { Text } from "../parts/text.tsx";
import { toLink } from "../place.ts";

interface WorkflowSummary {
  readonly id: string;
  readonly name: string;
  readonly purpose: string;
  readonly stepsCount: number;
}

/** All workflows. */
export function Workflows() {
  const workflows = useLoaded((signal) => ask<WorkflowSummary[]>("/workflows", { signal }), []);
  return (
    <>
      <h1>Workflows</h1>
      <Show of={workflows}>
        {(items) =>
          items.length === 0 ? (
            <Empty>
              None yet: create one with <code>defineWorkflow()</code> and export it from a file in{" "}
              <code>workflows/</code>.
            </Empty>
          ) : (
            <ul class="cards">
              {items.map(({ id, name, purpose, stepsCount }) => (
                <li key={id} class="panel">
                  <h2>
                    <a href={toLink(["workflows", id])}>
                      <Text value={name} />
                    </a>
                  </h2>
                  {purpose !== "" && (
                    <p>
                      <Text value={purpose} />
                    </p>
                  )}
                  <p class="hint">
                    <code>
                      <Text value={id} />
                    </code>{" "}
                    · {stepsCount === 1 ? "1 step" : `${stepsCount} steps`} ·{" "}
                    <a href={toLink(["runs"], { workflow: id })}>its runs</a>
                  </p>
                </li>
              ))}
            </ul>
          )
        }
      </Show>
    </>
  );
}
