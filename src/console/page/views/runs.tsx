import { Button } from "../parts/button.tsx";
import { useState } from "preact/hooks";
import { cancel, isFailed, isOpen, retry, type ListedExecution } from "../executions.ts";
import type { Loaded } from "../server/load.ts";
import { CancelDialog } from "../parts/cancel-dialog.tsx";
import { Empty, Show } from "../parts/states.tsx";
import { go, place, setQuery, toLink } from "../place.ts";
import { applyToAll } from "./runs/bulk.ts";
import { readFilter, type RunFilter } from "./runs/filter.ts";
import { Filters } from "./runs/filters.tsx";
import { KeysDialog, useRunKeys } from "./runs/keys.tsx";
import { pageSize, useRunList, type RunList } from "./runs/run-list.ts";
import { RunTable, type Select } from "./runs/run-table.tsx";

/** The page before each page that was opened from it: cursors only lead to older runs. */
const newer = new Map<string, string | undefined>();

/** The runs of all workflows, the newest first. */
export function Runs() {
  const { query } = place.value;
  const filter = readFilter(query);
  const cursor = query.get("cursor") ?? undefined;
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [dialog, setDialog] = useState<"keys" | "cancel" | undefined>();
  const list = useRunList({ filter, cursor, isHeld: selected.size > 0 });
  const clear = (): void => setSelected(new Set());
  const close = (): void => setDialog(undefined);
  const select: Select = (ids, isSelected) => {
    const others = [...selected].filter((id) => !ids.includes(id));
    setSelected(new Set(isSelected ? [...others, ...ids] : others));
  };
  const change = (next: RunFilter): void => {
    clear();
    setQuery({ ...next });
  };
  useRunKeys({ toggle: (id) => select([id], !selected.has(id)), showKeys: () => setDialog("keys") });
  const chosen = list.value?.rows.filter(({ executionId }) => selected.has(executionId)) ?? [];
  const open = chosen.filter(isOpen);
  const apply = async (work: Promise<void>): Promise<void> => {
    clear();
    await work;
    list.reload();
  };
  return (
    <>
      <div class="title">
        <h1>Runs</h1>
        <Button class="small" onClick={() => setDialog("keys")}>
          Keys
        </Button>
      </div>
      <Filters filter={filter} onChange={change} />
      <div class="actions selection" role="group" aria-label="Selected runs">
        <SelectionActions
          chosen={chosen}
          onRetry={(failed) => void apply(applyToAll(failed, "retried", retry))}
          onCancel={() => setDialog("cancel")}
          onClear={clear}
        />
        <NewRuns count={list.value?.newCount ?? 0} filter={filter} onShow={clear} />
      </div>
      <RunPage list={list} filter={filter} cursor={cursor} selected={selected} onSelect={select} onLeave={clear} />
      {dialog === "keys" && <KeysDialog onClose={close} />}
      {dialog === "cancel" && (
        <CancelDialog
          count={open.length}
          onClose={close}
          onCancel={(reason) => void apply(applyToAll(open, "cancelled", (run) => cancel(run, reason)))}
        />
      )}
    </>
  );
}

interface SelectionProps {
  readonly chosen: readonly ListedExecution[];
  onRetry(failed: readonly ListedExecution[]): void;
  onCancel(): void;
  onClear(): void;
}

/** The actions for the selected runs. */
function SelectionActions({ chosen, onRetry, onCancel, onClear }: SelectionProps) {
  const failed = chosen.filter(isFailed);
  const { length: openCount } = chosen.filter(isOpen);
  return (
    <>
      <span role="status">{chosen.length > 0 ? `${chosen.length} selected` : "None selected"}</span>
      <Button
        class="small"
        acts
        disabled={failed.length === 0}
        title="Continues the failed ones where they failed"
        onClick={() => onRetry(failed)}
      >
        Retry{failed.length > 0 && ` ${failed.length} failed`}
      </Button>
      <Button
        class="small"
        acts
        disabled={openCount === 0}
        title="Ends the running and suspended ones"
        onClick={onCancel}
      >
        Cancel{openCount > 0 && ` ${openCount}`} …
      </Button>
      {chosen.length > 0 && (
        <Button class="small" onClick={onClear}>
          Clear
        </Button>
      )}
    </>
  );
}

interface PageProps {
  readonly list: Loaded<RunList>;
  readonly filter: RunFilter;
  readonly cursor: string | undefined;
  readonly selected: ReadonlySet<string>;
  readonly onSelect: Select;
  /** Called before another page is opened. */
  onLeave(): void;
}

/** A page of the list, with the links to the pages beside it. */
function RunPage({ list, filter, cursor, selected, onSelect, onLeave }: PageProps) {
  const openOlder = (next: string): void => {
    newer.set(next, cursor);
    onLeave();
    go(["runs"], { ...filter, cursor: next });
  };
  return (
    <Show of={list}>
      {({ rows, nextCursor }) => (
        <>
          {rows.length === 0 ? (
            <Empty>No runs{Object.values(filter).some(Boolean) ? " match the filter" : " yet"}.</Empty>
          ) : (
            <RunTable rows={rows} selected={selected} onSelect={onSelect} />
          )}
          <p class="actions">
            <Button
              disabled={cursor === undefined}
              onClick={() => go(["runs"], { ...filter, cursor: newer.get(cursor ?? "") })}
            >
              Newer
            </Button>
            <Button disabled={nextCursor === null} onClick={() => openOlder(nextCursor ?? "")}>
              Older
            </Button>
          </p>
        </>
      )}
    </Show>
  );
}

/** Announces runs that were started after the page was read and are not shown. */
function NewRuns({ count, filter, onShow }: { count: number; filter: RunFilter; onShow: () => void }) {
  const amount = count >= pageSize ? `${pageSize} or more` : count;
  return (
    <span role="status">
      {count > 0 && (
        <a href={toLink(["runs"], { ...filter })} onClick={onShow}>
          {amount} new {count === 1 ? "run" : "runs"}
        </a>
      )}
    </span>
  );
}
