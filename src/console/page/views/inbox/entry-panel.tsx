import { Button } from "../../parts/button.tsx";
import { Component } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { BranchFacts, BranchForm } from "../../parts/branch-form.tsx";
import { notify } from "../../parts/notices.tsx";
import { Problem } from "../../parts/states.tsx";
import { Fact, Link, Text } from "../../parts/text.tsx";
import { Time } from "../../parts/time.tsx";
import { runLink, toLink } from "../../place.ts";
import { dismiss, removeAnswered, touch, type WaitingEntry } from "../../waiting.ts";

interface EntryProps {
  readonly entry: WaitingEntry;
  /** True for one of the first entries, whose forms are open. */
  readonly isFirst: boolean;
}

/** A branch of an execution that waits for a person. It is rendered again only if it has changed: there may be a thousand. */
export class EntryPanel extends Component<EntryProps> {
  override shouldComponentUpdate({ entry, isFirst }: EntryProps): boolean {
    return entry !== this.props.entry || isFirst !== this.props.isFirst;
  }
  override render() {
    return <Panel {...this.props} />;
  }
}

function Panel({ entry, isFirst }: EntryProps) {
  const { key, execution, branch, isGone } = entry;
  const { workflowId, executionId } = execution;
  const id = useId();
  const link = runLink(workflowId, executionId);
  const [form, setForm] = useState<"closed" | "open" | "asked">("closed");
  if (isFirst && form === "closed") setForm("open"); // it stays open when older ones precede it
  const answer = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (form === "asked") answer.current?.focus();
  }, [form]);
  return (
    <article class="panel" aria-labelledby={id} onInput={() => touch(key)}>
      <h2 id={id}>
        <Text value={branch.reason || "Waits for an answer"} />
      </h2>
      <ul class="facts">
        <li>
          <Link to={toLink(["workflows", workflowId])} text={workflowId} />
        </li>
        <Fact label="run">
          <Link to={link} text={executionId} />
        </Fact>
        <Fact label="since">
          <Time at={branch.suspendedAt} />
        </Fact>
      </ul>
      {isGone && (
        <Problem
          message="This does not wait now: it was answered elsewhere, it has ended, or another branch of its run is running."
          label="Remove"
          onClick={() => dismiss(key)}
        />
      )}
      {form !== "closed" ? (
        <div ref={answer} tabIndex={-1}>
          <BranchFacts of={execution} branch={branch} />
          <BranchForm
            of={execution}
            branch={branch}
            disabled={isGone}
            onAnswered={() => {
              removeAnswered(entry);
              notify("done", "The answer was sent.", { href: link, label: "Show the run" });
            }}
          />
        </div>
      ) : (
        <Button class="small" onClick={() => setForm("asked")}>
          Answer …
        </Button>
      )}
    </article>
  );
}
