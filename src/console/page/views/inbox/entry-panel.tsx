import { useId } from "preact/hooks";
import { BranchFacts, BranchForm } from "../../parts/branch-form.tsx";
import { notify } from "../../parts/notices.tsx";
import { Text } from "../../parts/text.tsx";
import { Time } from "../../parts/time.tsx";
import { runLink, toLink } from "../../place.ts";
import { removeAnswered, touch, type WaitingEntry } from "../../waiting.ts";
import { Gone } from "./gone.tsx";

/** A branch of an execution that waits for a person. */
export function EntryPanel({ entry }: { entry: WaitingEntry }) {
  const { key, execution, branch, isGone } = entry;
  const { workflowId, executionId, suspension } = execution;
  const id = useId();
  const link = runLink(workflowId, executionId);
  return (
    <article class="panel" aria-labelledby={id} onInput={() => touch(key)}>
      <h2 id={id}>
        <Text value={branch.reason || "Waits for an answer"} />
      </h2>
      <ul class="facts">
        <li>
          <a href={toLink(["workflows", workflowId])}>
            <Text value={workflowId} />
          </a>
        </li>
        <li>
          run{" "}
          <a href={link}>
            <Text value={executionId} />
          </a>
        </li>
        {suspension && (
          <li>
            since <Time at={suspension.suspendedAt} />
          </li>
        )}
      </ul>
      <BranchFacts of={execution} branch={branch} />
      {isGone && <Gone entryKey={key} />}
      <BranchForm
        of={execution}
        branch={branch}
        disabled={isGone}
        onAnswered={() => {
          removeAnswered(entry);
          notify("done", "The answer was sent.", { href: link, label: "Show the run" });
        }}
      />
    </article>
  );
}
