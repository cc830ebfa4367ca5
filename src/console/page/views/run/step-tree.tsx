import { useEffect, useMemo, useState } from "preact/hooks";
import { Status } from "../../parts/status.tsx";
import { Text } from "../../parts/text.tsx";
import { Duration } from "../../parts/time.tsx";
import { Bar } from "../../parts/waterfall.tsx";
import { useRowWindow } from "../../parts/window.ts";
import { stepStatuses, type StepView } from "../../step-list.ts";
import type { StepStore } from "./step-store.ts";
import { isLoop, toRows, type MoreRow, type StepRow, type TreeRow } from "./tree-rows.ts";

const rowHeight = 32;
/** More than the rows that a window can show. */
const slots = 128;
/** The items of a loop that are read before they are visible. */
const ahead = 100;
const rowId = (path: string): string => `step ${path}`.replace(/\s/g, "-");

interface TreeProps {
  readonly store: StepStore;
  readonly span: TimeSpan;
  readonly selected: string | undefined;
  onSelect(path: string): void;
}

/** The steps as a tree with their times beside it. Only the visible rows are in the document. */
export function StepTree({ store, span, selected, onSelect }: TreeProps) {
  const steps = store.steps.value ?? [];
  const loops = store.loops.value;
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  const rows = useMemo(() => toRows(steps, loops, opened), [steps, loops, opened]);
  const view = useRowWindow(rows.length, rowHeight);
  const at = rows.findIndex((row) => row.type === "step" && row.path === selected);

  const shown = rows.slice(view.first, view.end);
  const wanted = rows.slice(view.first, view.end + ahead).find((row) => row.type === "more")?.path;
  useEffect(() => {
    if (wanted !== undefined) void store.readMore(wanted);
  }, [wanted, rows]);

  const toggle = ({ step, path, isOpen }: StepRow): void => {
    if (isOpen === undefined) return;
    if (!isLoop(step)) setOpened(new Map(opened).set(path, !isOpen));
    else if (isOpen) store.closeLoop(path);
    else store.openLoop(path);
  };
  const moveTo = (next: number): void => {
    const row = rows[next];
    if (row?.type !== "step") return;
    onSelect(row.path);
    view.reveal(next);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const next = toMove(event.key, rows, at);
    const row = rows[at];
    if (typeof next === "number") moveTo(next);
    else if (next === "toggle" && row?.type === "step") toggle(row);
    else return;
    event.preventDefault();
  };
  const isVisible = selected !== undefined && at >= view.first && at < view.end;
  return (
    <div
      class="tree"
      role="tree"
      aria-label="Steps"
      tabIndex={0}
      aria-activedescendant={isVisible ? rowId(selected) : undefined}
      ref={view.box}
      onScroll={view.onScroll}
      onKeyDown={onKeyDown}
      onFocus={() => at < 0 && moveTo(0)}
    >
      <div role="presentation" class="tree-rows" style={{ height: `${rows.length * rowHeight}px` }}>
        {shown.map((row, index) => {
          const top = `${(view.first + index) * rowHeight}px`;
          const slot = (view.first + index) % slots; // the elements of rows that are scrolled away are used again
          if (row.type === "more") return <MoreItems key={`more ${slot}`} row={row} top={top} />;
          const isSelected = row.path === selected;
          return <Row key={slot} {...{ row, top, span, isSelected, onSelect, onToggle: toggle }} />;
        })}
      </div>
    </div>
  );
}

const MoreItems = ({ row: { level }, top }: { row: MoreRow; top: string }) => (
  <div role="presentation" class="tree-row hint" style={{ top }}>
    <span style={{ paddingLeft: `${level}rem` }}>Loading …</span>
  </div>
);

interface RowProps extends Pick<TreeProps, "span" | "onSelect"> {
  readonly row: StepRow;
  readonly top: string;
  readonly isSelected: boolean;
  onToggle(row: StepRow): void;
}

function Row({ row, top, span, isSelected, onSelect, onToggle }: RowProps) {
  const { path, step, level, place, size, isOpen } = row;
  const { stepId, type, status, startAt, endAt, suspension, attempts, count } = step;
  const last = attempts.at(-1)?.attempt ?? 1;
  const toggle = (event: Event): void => {
    event.stopPropagation();
    onToggle(row);
  };
  return (
    <div
      id={rowId(path)}
      role="treeitem"
      class="tree-row"
      aria-level={level}
      aria-posinset={place}
      aria-setsize={size}
      aria-expanded={isOpen}
      aria-selected={isSelected}
      style={{ top }}
      onClick={() => onSelect(path)}
    >
      <span class="tree-name" style={{ paddingLeft: `${level - 1}rem` }}>
        <span class="tree-mark" aria-hidden="true" onClick={toggle}>
          {isOpen === undefined ? "" : isOpen ? "▾" : "▸"}
        </span>
        <Text value={stepId} /> <small>{type}</small>
        {last > 1 && <small> attempt {last}</small>}
        {count && <small> {toCounts(count)}</small>}
      </span>
      <Status status={status} kind={suspension?.kind} />
      <span class="tree-time">
        <Duration from={startAt} to={endAt} />
      </span>
      <StepBar step={step} span={span} />
    </div>
  );
}

/** Returns the counts of a loop, failures first: `500 items, 1 error, 499 success`. */
function toCounts(count: NonNullable<StepRow["step"]["count"]>): string {
  const parts = stepStatuses.flatMap((status) => (count[status] === undefined ? [] : [`${count[status]} ${status}`]));
  return [`${count.total} ${count.total === 1 ? "item" : "items"}`, ...parts].join(", ");
}

/** Returns the row to which a key moves, or "toggle" if it opens or closes the focused row. */
function toMove(key: string, rows: readonly TreeRow[], at: number): number | "toggle" | undefined {
  const row = rows[at];
  const current = row?.type === "step" ? row : undefined;
  const last = rows.at(-1)?.type === "more" ? rows.length - 2 : rows.length - 1;
  if (key === "ArrowDown") return Math.min(at + 1, last);
  if (key === "ArrowUp") return Math.max(at - 1, 0);
  if (key === "PageDown") return Math.min(at + 10, last);
  if (key === "PageUp") return Math.max(at - 10, 0);
  if (key === "Home") return 0;
  if (key === "End") return last;
  if (key === "Enter" || key === " ") return current?.isOpen === undefined ? at : "toggle";
  if (key === "ArrowRight" && current)
    return current.isOpen === true ? at + 1 : current.isOpen === false ? "toggle" : at;
  if (key === "ArrowLeft" && current) {
    if (current.isOpen) return "toggle";
    return Math.max(
      rows.findLastIndex((one, index) => index < at && one.level < current.level),
      0,
    );
  }
  return undefined;
}

/** The time of an execution, in milliseconds since 1970. */
interface TimeSpan {
  readonly from: number;
  readonly to: number;
}

/** The bar of a step in the time span of its execution. */
function StepBar({ step: { startAt, endAt, status }, span: { from, to } }: { step: StepView; span: TimeSpan }) {
  const length = Math.max(to - from, 1);
  const end = endAt === null ? to : Date.parse(endAt);
  return <Bar status={status} left={(Date.parse(startAt) - from) / length} right={(end - from) / length} />;
}
