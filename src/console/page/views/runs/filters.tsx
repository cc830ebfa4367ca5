import { Button } from "../../parts/button.tsx";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../../server/api.ts";
import { useLoaded } from "../../server/load.ts";
import { Choice, TextField } from "../../parts/field.tsx";
import { kindChoices, statusChoices, type RunFilter } from "./filter.ts";

/** The fields of the filter. */
export function Filters({ filter, onChange }: { filter: RunFilter; onChange: (next: RunFilter) => void }) {
  const { workflow, status, kind, id = "", since, until } = filter;
  const workflows = useLoaded((signal) => ask<{ id: string }[]>("/workflows", { signal }), []);
  const ids = new Set([...(workflows.value ?? []).map((one) => one.id), ...(workflow === undefined ? [] : [workflow])]);
  const set = (change: RunFilter): void => onChange({ ...filter, ...change });
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  return (
    <form class="filters" role="search" aria-label="Filter of the runs" onSubmit={(event) => event.preventDefault()}>
      <Choice
        id="run-workflow"
        label="Workflow"
        none="All"
        value={workflow}
        choices={[...ids]}
        onChange={(next) => set({ workflow: next })}
      />
      <Choice
        id="run-status"
        label="Status"
        none="All"
        value={status}
        choices={statusChoices}
        onChange={(next) => set({ status: next, kind: undefined })}
      />
      {status === "suspended" && (
        <Choice
          id="run-kind"
          label="Waits for"
          none="Anything"
          value={kind}
          choices={kindChoices}
          onChange={(next) => set({ kind: next })}
        />
      )}
      <IdField value={id} onChange={(next) => set({ id: next || undefined })} />
      <TimeField label="Started since" value={since} onChange={(next) => set({ since: next })} />
      <TimeField label="Started until" value={until} onChange={(next) => set({ until: next })} />
      {isFiltered && <Button onClick={() => onChange({})}>Clear</Button>}
    </form>
  );
}

/** The beginning of an id. It is used when the typing pauses. */
function IdField({ value, onChange }: { value: string; onChange: (next: string) => void }) {
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change = (next: string): void => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(next.trim()), 250);
  };
  return (
    <TextField
      id="run-id"
      label="Id begins with"
      type="search"
      autocomplete="off"
      spellcheck={false}
      value={text}
      onText={change}
    />
  );
}

interface TimeFieldProps {
  readonly label: string;
  readonly value: string | undefined;
  onChange(next: string | undefined): void;
}

function TimeField({ label, value, onChange }: TimeFieldProps) {
  const change = (text: string): void => {
    const date = new Date(text);
    onChange(Number.isNaN(date.getTime()) ? undefined : date.toISOString());
  };
  return <TextField label={label} type="datetime-local" value={toLocal(value)} onDone={change} />;
}

/** Returns a time as the input writes it, in the zone of the browser. */
function toLocal(iso: string | undefined): string {
  const date = new Date(iso ?? "");
  if (Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
