import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../../server/api.ts";
import { useLoaded } from "../../server/load.ts";
import { toVisible } from "../../parts/text.tsx";
import { kindChoices, statusChoices, type RunFilter } from "./filter.ts";

/** The fields of the filter. */
export function Filters({ filter, onChange }: { filter: RunFilter; onChange: (next: RunFilter) => void }) {
  const { workflow = "", status = "", kind = "", id = "", since, until } = filter;
  const workflows = useLoaded((signal) => ask<{ id: string }[]>("/workflows", { signal }), []);
  const ids = new Set([...(workflows.value ?? []).map((one) => one.id), ...(workflow === "" ? [] : [workflow])]);
  const set = (change: RunFilter): void => onChange({ ...filter, ...change });
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  return (
    <form class="filters" role="search" aria-label="Filter of the runs" onSubmit={(event) => event.preventDefault()}>
      <div class="field">
        <label for="run-workflow">Workflow</label>
        <select
          id="run-workflow"
          value={workflow}
          onChange={({ currentTarget }) => set({ workflow: currentTarget.value || undefined })}
        >
          <option value="">All</option>
          {[...ids].map((one) => (
            <option key={one} value={one}>
              {toVisible(one)}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for="run-status">Status</label>
        <select
          id="run-status"
          value={status}
          onChange={({ currentTarget }) => set({ status: currentTarget.value || undefined, kind: undefined })}
        >
          <option value="">All</option>
          {statusChoices.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </div>
      {status === "suspended" && (
        <div class="field">
          <label for="run-kind">Waits for</label>
          <select
            id="run-kind"
            value={kind}
            onChange={({ currentTarget }) => set({ kind: currentTarget.value || undefined })}
          >
            <option value="">Anything</option>
            {kindChoices.map(([value, title]) => (
              <option key={value} value={value}>
                {title}
              </option>
            ))}
          </select>
        </div>
      )}
      <IdField value={id} onChange={(next) => set({ id: next || undefined })} />
      <TimeField label="Started since" name="since" value={since} onChange={(next) => set({ since: next })} />
      <TimeField label="Started until" name="until" value={until} onChange={(next) => set({ until: next })} />
      {isFiltered && (
        <button type="button" onClick={() => onChange({})}>
          Clear
        </button>
      )}
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
    <div class="field">
      <label for="run-id">Id begins with</label>
      <input
        id="run-id"
        type="search"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
    </div>
  );
}

interface TimeFieldProps {
  readonly label: string;
  readonly name: string;
  readonly value: string | undefined;
  onChange(next: string | undefined): void;
}

function TimeField({ label, name, value, onChange }: TimeFieldProps) {
  return (
    <div class="field">
      <label for={`run-${name}`}>{label}</label>
      <input
        id={`run-${name}`}
        type="datetime-local"
        value={toLocal(value)}
        onChange={({ currentTarget }) => {
          const date = new Date(currentTarget.value);
          onChange(Number.isNaN(date.getTime()) ? undefined : date.toISOString());
        }}
      />
    </div>
  );
}

/** Returns a time as the input writes it, in the zone of the browser. */
function toLocal(iso: string | undefined): string {
  const date = new Date(iso ?? "");
  if (Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
