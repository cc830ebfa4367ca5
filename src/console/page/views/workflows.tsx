import { ask } from "../server/api.ts";
import { useLoaded } from "../server/load.ts";
import { ShowList } from "../parts/states.tsx";
import { Link, Paragraph, Text, toCount } from "../parts/text.tsx";
import type { WorkflowDefinition } from "../workflows.ts";
import { toLink } from "../place.ts";

interface WorkflowSummary extends Pick<WorkflowDefinition, "id" | "name" | "purpose"> {
  readonly stepsCount: number;
}

/** All workflows. */
export function Workflows() {
  const workflows = useLoaded((signal) => ask<WorkflowSummary[]>("/workflows", { signal }), []);
  const empty = (
    <>
      None yet: create one with <code>defineWorkflow()</code> and export it from a file in <code>workflows/</code>.
    </>
  );
  return (
    <>
      <h1>Workflows</h1>
      <ShowList of={workflows} empty={empty}>
        {(items) => (
          <ul class="cards">
            {items.map(({ id, name, purpose, stepsCount }) => (
              <li key={id} class="panel">
                <h2>
                  <Link to={toLink(["workflows", id])} text={name} />
                </h2>
                <Paragraph text={purpose} />
                <p class="hint">
                  <code>
                    <Text value={id} />
                  </code>{" "}
                  · {toCount(stepsCount, "step")} · <a href={toLink(["runs"], { workflow: id })}>its runs</a>
                </p>
              </li>
            ))}
          </ul>
        )}
      </ShowList>
    </>
  );
}
