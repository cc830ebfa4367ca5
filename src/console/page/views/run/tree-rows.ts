import type { StepView } from "../../step-list.ts";
import type { LoopItems } from "./step-store.ts";

/** A row of the tree: a step, or the place where more items of a loop are read. */
export type TreeRow = StepRow | MoreRow;
export interface StepRow {
  readonly type: "step";
  readonly path: string;
  readonly step: StepView;
  readonly level: number;
  /** The place among the steps beside it, from 1, and their number. */
  readonly place: number;
  readonly size: number;
  /** Undefined if nothing is inside it. */
  readonly isOpen: boolean | undefined;
}
export interface MoreRow {
  readonly type: "more";
  readonly path: string;
  readonly level: number;
}

export const isLoop = ({ count }: StepView): boolean => count !== undefined;
const isItem = ({ type }: StepView): boolean => type === "item" || type === "iteration";

/** Returns the visible rows: each step that is inside open steps only. */
export function toRows(
  steps: readonly StepView[],
  loops: ReadonlyMap<string, LoopItems>,
  opened: ReadonlyMap<string, boolean>,
): TreeRow[] {
  const children = groupByParent(steps, loops);
  const rows: TreeRow[] = [];
  const add = (list: readonly StepView[], level: number): void => {
    list.forEach((step, index) => {
      const { path } = step;
      const inside = children.get(path);
      const canOpen = isLoop(step) || inside !== undefined;
      const isOpen = isLoop(step) ? loops.has(path) : (opened.get(path) ?? !isItem(step));
      const place = { place: index + 1, size: list.length };
      rows.push({ type: "step", path, step, level, ...place, isOpen: canOpen ? isOpen : undefined });
      if (!canOpen || !isOpen) return;
      add(inside ?? [], level + 1);
      const held = loops.get(path);
      if (held && held.pages.at(-1)?.next !== null) rows.push({ type: "more", path, level: level + 1 });
    });
  };
  add(children.get("") ?? [], 1);
  return rows;
}

function groupByParent(
  steps: readonly StepView[],
  loops: ReadonlyMap<string, LoopItems>,
): ReadonlyMap<string, StepView[]> {
  const children = new Map<string, StepView[]>();
  const add = (parent: string, step: StepView): void => {
    const list = children.get(parent);
    if (list) list.push(step);
    else children.set(parent, [step]);
  };
  for (const step of steps) add(step.parent ?? "", step);
  for (const [loop, { only, pages }] of loops) {
    const paths = only && new Set(pages.flatMap(({ items }) => items.map(({ path }) => path)));
    for (const { items } of pages) {
      for (const step of items) {
        // Of the items with one status, an inner step may be there without the item around it.
        const isOrphan = paths !== undefined && !paths.has(step.parent ?? "");
        add(isOrphan ? loop : (step.parent ?? loop), step);
      }
    }
  }
  return children;
}
