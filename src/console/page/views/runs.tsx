import { useState } from "preact/hooks";
import { whyNot } from "../session.ts";
import { cancel, isFailed, isOpen, retry } from "../executions.ts";
import { CancelDialog } from "../parts/cancel-dialog.tsx";
import { Empty, Show } from "../parts/states.tsx";
import { go, place, setQuery, toLink } from "../place.ts";
import { applyToAll } from "./runs/bulk.ts";
import { readFilter, type RunFilter } from "./runs/filter.ts";
import { Filters } from "./runs/filters.tsx";
import { KeysDialog, useRunKeys } from "./runs/keys.tsx";
import { pageSize, useRunList } from "./runs/run-list.ts";
import { RunTable } from "./runs/run-table.tsx";

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

  const select = (ids: readonly string[], isSelected: boolean): void => {
    const next = new Set(selected);
    for (const id of ids) {
      if (isSelected) next.add(id);
      else next.delete(id);
    }
    setSelected(next);
  };
  const change = (next: RunFilter): void => {
    setSelected(new Set());
    setQuery({ ...next });
  };
  useRunKeys({ toggle: (id) => select([id], !selected.has(id)), showKeys: () => setDialog("keys") });

  const chosen = list.value?.rows.filter(({ executionId }) => selected.has(executionId)) ?? [];
  const failed = chosen.filter(isFailed);
  const open = chosen.filter(isOpen);
  const apply = async (work: Promise<void>): Promise<void> => {
    setSelected(new Set());
    await work;
    list.reload();
  };
  const openOlder = (next: string): void => {
    newer.set(next, cursor);
    setSelected(new Set());
    go(["runs"], { ...filter, cursor: next });
  };
  return (
    <>
      <div class="title">
        <h1>Runs</h1>
        <button type="button" class="small" onClick={() => setDialog("keys")}>
          Keys
        </button>
      </div>
      <Filters filter={filter} onChange={change} />
      <div class="actions selection" role="group" aria-label="Selected runs">
        <span role="status">{chosen.length > 0 ? `${chosen.length} selected` : "None selected"}</span>
        <button
          type="button"
          class="small"
          disabled={failed.length === 0 || whyNot() !== undefined}
          title={whyNot() ?? "Continues the failed ones where they failed"}
          onClick={() => void apply(applyToAll(failed, "retried", retry))}
        >
          Retry{failed.length > 0 && ` ${failed.length} failed`}
        </button>
        <button
          type="button"
          class="small"
          disabled={open.length === 0 || whyNot() !== undefined}
          title={whyNot() ?? "Ends the running and suspended ones"}
          onClick={() => setDialog("cancel")}
        >
          Cancel{open.length > 0 && ` ${open.length}`} …
        </button>
        {chosen.length > 0 && (
          <button type="button" class="small" onClick={() => setSelected(new Set())}>
            Clear
          </button>
        )}
        <NewRuns count={list.value?.newCount ?? 0} filter={filter} onShow={() => setSelected(new Set())} />
      </div>
      <Show of={list}>
        {({ rows, nextCursor }) => (
          <>
            {rows.length === 0 ? (
              <Empty>No runs{Object.values(filter).some(Boolean) ? " match the filter" : " yet"}.</Empty>
            ) : (
              <RunTable rows={rows} selected={selected} onSelect={select} />
            )}
            <p class="actions">
              <button
                type="button"
                disabled={cursor === undefined}
                onClick={() => go(["runs"], { ...filter, cursor: newer.get(cursor ?? "") })}
              >
                Newer
              </button>
              <button type="button" disabled={nextCursor === null} onClick={() => openOlder(nextCursor ?? "")}>
                Older
              </button>
            </p>
          </>
        )}
      </Show>
      {dialog === "keys" && <KeysDialog onClose={() => setDialog(undefined)} />}
      {dialog === "cancel" && (
        <CancelDialog
          count={open.length}
          onClose={() => setDialog(undefined)}
          onCancel={(reason) => void apply(applyToAll(open, "cancelled", (run) => cancel(run, reason)))}
        />
      )}
    </>
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
