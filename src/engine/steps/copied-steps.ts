import { fromRow, type JournalRow } from "../runs/journal-row.ts";
import type { LoopStart } from "../walk/decision.ts";
import { stableKeyOf } from "../walk/journal-keys.ts";
import type { StepNode } from "./step-tree.ts";

/** The places that copied steps are reported to, as if their events were read. */
export interface CopyTarget {
  begin(path: string, at: number): void;
  result(row: JournalRow): void;
  complete(path: string, at: number, status: "success" | "skipped"): void;
}

/**
 * Derives the steps that a fork has copied from their rows, which have no events. Each step has the times of its rows. A
 * branch that lost a race begins and does not complete.
 */
export function copySteps(steps: readonly StepNode[], rows: readonly JournalRow[], target: CopyTarget): void {
  const byEntry = new Map(rows.map((row) => [stableKeyOf(row.key), row]));
  let now = rows[0]?.at ?? 0;
  for (const node of steps) if (!walk(node, "", Infinity)) return;

  /** The result of an entry, if it was written up to this row. */
  function find(entry: string, until: number): JournalRow | undefined {
    const row = byEntry.get(entry);
    return row && row.id <= until ? row : undefined;
  }

  function walkAll(nodes: readonly StepNode[], prefix: string, until: number): boolean {
    return nodes.every((node) => walk(node, prefix, until));
  }

  function walkBranches(nodes: readonly StepNode[], prefix: string, until: number): boolean {
    const ordered = toFailingLast(nodes, (node) => toFailure(node, prefix, until));
    return ordered.map((node) => walk(node, prefix, until)).every(Boolean);
  }

  /**
   * Reports a step and those inside it. Returns whether it has completed. A branch that lost a race has not (`hasLost`), also
   * if it has all results that rows tell of.
   */
  function walk(node: StepNode, prefix: string, until: number, hasLost = false): boolean {
    const { traits, children } = node;
    const path = prefix + node.stepId;
    now = toStart(node, prefix, until) ?? now;
    target.begin(path, now);
    const complete = (status: "success" | "skipped" = "success"): boolean => {
      if (!hasLost) target.complete(path, now, status);
      return !hasLost;
    };
    switch (traits.shape) {
      case "wait":
        return Boolean(take(`${path}?`, until) && take(`~${path}`, until)) && complete();
      case "loop":
        return walkLoop(node, path, until) && complete();
      case "sequence":
        return walkAll(children, prefix, until) && complete();
      case "choice": {
        if (!traits.passesOn) return walkChoice(node, prefix, until) && complete();
        const condition = take(`${path}?`, until);
        if (condition?.kind !== "value") return false;
        if (condition.body !== "true") return complete("skipped");
        return walkAll(children, prefix, until) && complete();
      }
      case "all":
        return walkBranches(children, prefix, until) && complete();
      case "race": {
        const ends = children.map((child) => toEnd(child, prefix, until) ?? Infinity);
        const won = toEnd(node, prefix, until) ?? Infinity;
        const winner = children[ends.indexOf(won)];
        for (const child of toFailingLast(children, (one) => toFailure(one, prefix, until)))
          walk(child, prefix, Math.min(won, until), child !== winner);
        return won !== Infinity && complete();
      }
      case "child": {
        if (take(`${path}<`, until)?.kind === "error" || !walkAll(children, `${path}/`, until)) return false;
        for (const entry of [`${path}/>`, `${path}>`]) if (take(entry, until)?.kind === "error") return false;
        return complete();
      }
      case "leaf": {
        const row = take(path, until);
        return row !== undefined && (row.kind === "value" || traits.tolerates === true) && complete();
      }
    }
  }

  /** Reports the branches whose condition holds. Returns whether all of them have completed. */
  function walkChoice({ children, stepId }: StepNode, prefix: string, until: number): boolean {
    const conditions = children.map((_, index) => find(`${prefix}${stepId}?${index}`, until));
    for (const row of toOrdered(conditions)) take(stableKeyOf(row.key), until);
    if (conditions.some((row) => row?.kind !== "value")) return false;
    const chosen = children.filter((_, index) => conditions[index]?.body === "true");
    return walkBranches(chosen, prefix, until);
  }

  /** Reports the iterations of a loop. Returns whether it has completed. */
  function walkLoop({ traits, children }: StepNode, path: string, until: number): boolean {
    if (traits.items !== "list") {
      for (let index = 0; ; index++) {
        if (!walkAll(children, `${path}/${index}/`, until)) return false;
        const condition = take(`${path}/${index}?`, until);
        if (condition?.body !== "true") return condition?.kind === "value";
      }
    }
    const row = take(`${path}?`, until);
    const loop = row && toLoop(row);
    if (!loop) return false;
    const { count, concurrency } = loop;
    const inside = (index: number): string => `${path}/${index}/`;
    const begun: number[] = [];
    let ended = 0;
    // An item begins when there is a place. In a branch that lost a race, some may not have begun.
    for (let index = 0; index < Math.min(count, concurrency + ended); index++) {
      if (toItemEnd(loop, children, inside(index), until) !== undefined) ended++;
      begun.push(index);
    }
    for (const index of toFailingLast(begun, (one) => toItemFailure(children, inside(one), until)))
      if (take(`${path}/${index}<`, until)?.kind !== "error") walkAll(children, inside(index), until);
    return ended === count;
  }

  function take(entry: string, until: number): JournalRow | undefined {
    const row = find(entry, until);
    if (!row) return undefined;
    now = Math.max(now, row.at);
    target.result(row);
    return row;
  }

  /** The prefixes of the steps inside a step: several for a loop. */
  function* prefixesOf(
    { traits: { shape, items } }: StepNode,
    path: string,
    prefix: string,
    until: number,
  ): Generator<string> {
    if (shape === "child") yield `${path}/`;
    else if (shape !== "loop") yield prefix;
    else if (items === "list") {
      const row = find(`${path}?`, until);
      const count = (row && toLoop(row)?.count) ?? 0;
      for (let index = 0; index < count; index++) yield `${path}/${index}/`;
    } else {
      for (let index = 0; ; index++) {
        yield `${path}/${index}/`;
        if (find(`${path}/${index}?`, until)?.body !== "true") return;
      }
    }
  }

  /** The time of the first row of a step. */
  function toStart(node: StepNode, prefix: string, until: number): number | undefined {
    const path = prefix + node.stepId;
    let first = Infinity;
    for (const suffix of ["", "?", "?0", "<"]) first = Math.min(first, find(path + suffix, until)?.at ?? Infinity);
    // The row that begins a loop is older than those of its items.
    if (first === Infinity || node.traits.shape !== "loop")
      for (const inside of prefixesOf(node, path, prefix, until))
        for (const child of node.children) first = Math.min(first, toStart(child, inside, until) ?? Infinity);
    return first === Infinity ? undefined : first;
  }

  /** The row with which a step completes; 0 if it needs none, undefined if it does not complete. */
  function toEnd(node: StepNode, prefix: string, until: number): number | undefined {
    const { traits, children } = node;
    const path = prefix + node.stepId;
    const row = (suffix: string): JournalRow | undefined => find(path + suffix, until);
    const endsOf = (nodes: readonly StepNode[], inside = prefix): (number | undefined)[] =>
      nodes.map((one) => toEnd(one, inside, until));
    switch (traits.shape) {
      case "wait":
        return find(`~${path}`, until)?.id;
      case "sequence":
        return last(endsOf(children));
      case "choice": {
        if (traits.passesOn) {
          const condition = row("?");
          if (condition?.kind !== "value") return undefined;
          return last(endsOf(condition.body === "true" ? children : []), condition);
        }
        const conditions = children.map((_, index) => row(`?${index}`));
        if (conditions.some((one) => one?.kind !== "value")) return undefined;
        return last(endsOf(children.filter((_, index) => conditions[index]?.body === "true")), ...conditions);
      }
      case "all":
        return last(endsOf(children));
      case "race": {
        // Nothing is copied that came after its end. Rows do not tell that a `map` was still running, but later rows do.
        const ends = endsOf(children);
        const lastRow = children.reduce((most, child) => greater(most, toLastRow(child, prefix, until)), 0);
        return ends.includes(lastRow) ? lastRow : least(ends);
      }
      case "child":
        return last(endsOf(children, `${path}/`), row("<"), row("/>"), row(">"));
      case "loop": {
        const insides = [...prefixesOf(node, path, prefix, until)];
        if (traits.items !== "list") {
          const condition = find(`${insides.at(-1)!.slice(0, -1)}?`, until);
          return condition?.kind === "value" ? condition.id : undefined;
        }
        const begin = row("?");
        const loop = begin && toLoop(begin);
        if (!loop) return undefined;
        return last(
          insides.map((inside) => toItemEnd(loop, children, inside, until)),
          begin,
        );
      }
      case "leaf": {
        const result = row("");
        return result && (result.kind === "value" || traits.tolerates) ? result.id : undefined;
      }
    }
  }

  /** The last row of a step and those inside it; 0 if there is none. */
  function toLastRow(node: StepNode, prefix: string, until: number): number {
    const path = prefix + node.stepId;
    const own = ["", "?", ...node.children.map((_, index) => `?${index}`), "<", "/>", ">"].map(
      (suffix) => path + suffix,
    );
    let found = [...own, `~${path}`].reduce((most, entry) => greater(most, find(entry, until)?.id), 0);
    for (const inside of prefixesOf(node, path, prefix, until)) {
      for (const child of node.children) found = greater(found, toLastRow(child, inside, until));
      if (node.traits.shape === "loop")
        for (const suffix of ["<", "?"]) found = greater(found, find(inside.slice(0, -1) + suffix, until)?.id);
    }
    return found;
  }

  /** The row with which an item ends: also one that has failed, if its loop collects failures. */
  function toItemEnd(
    { onError }: LoopStart,
    children: readonly StepNode[],
    inside: string,
    until: number,
  ): number | undefined {
    const map = find(`${inside.slice(0, -1)}<`, until);
    const end = last(
      children.map((child) => toEnd(child, inside, until)),
      map,
    );
    if (end !== undefined || onError !== "collect") return end;
    return toItemFailure(children, inside, until);
  }

  /** The row with which an item fails; undefined if it does not. */
  function toItemFailure(children: readonly StepNode[], inside: string, until: number): number | undefined {
    const map = find(`${inside.slice(0, -1)}<`, until);
    return least([toFinal(map), ...children.map((child) => toFailure(child, inside, until))]);
  }

  /** The row with which a step fails for good, or one inside it that it needs; undefined if it does not fail. */
  function toFailure(node: StepNode, prefix: string, until: number): number | undefined {
    const { traits, children } = node;
    if (traits.tolerates) return undefined;
    const path = prefix + node.stepId;
    const own = ["", "?", ...children.map((_, index) => `?${index}`), "<", "/>", ">"];
    const failed = own.map((suffix) => toFinal(find(path + suffix, until)));
    const begin = traits.items === "list" ? find(`${path}?`, until) : undefined;
    if (begin && toLoop(begin)?.onError === "collect") return least(failed);
    for (const inside of prefixesOf(node, path, prefix, until)) {
      const inner = children.map((child) => toFailure(child, inside, until));
      if (traits.shape !== "race") failed.push(...inner);
      else if (!inner.includes(undefined)) failed.push(inner.reduce<number>(greater, 0));
      if (traits.shape === "loop")
        for (const suffix of ["<", "?"]) failed.push(toFinal(find(inside.slice(0, -1) + suffix, until)));
    }
    return least(failed);
  }
}

/** A row that is a failure for good. Rows of older versions do not say it: the last one of an entry is. */
function toFinal(row: JournalRow | undefined): number | undefined {
  if (row?.kind !== "error") return undefined;
  const { isFinal = true } = JSON.parse(row.body!) as { isFinal?: boolean };
  return isFinal ? row.id : undefined;
}

/** Branches that fail are the last ones, in the order of their failures: they may end the item that all of them are in. */
function toFailingLast<T>(branches: readonly T[], failureOf: (branch: T) => number | undefined): T[] {
  const failures = new Map(branches.map((branch) => [branch, failureOf(branch) ?? 0]));
  return branches.toSorted((one, other) => failures.get(one)! - failures.get(other)!);
}

/** In the order of the journal. */
const toOrdered = (rows: readonly (JournalRow | undefined)[]): JournalRow[] =>
  rows.filter((row) => row !== undefined).toSorted((one, other) => one.id - other.id);

function least(rows: readonly (number | undefined)[]): number | undefined {
  return rows.reduce(
    (one, other) => (one === undefined || (other !== undefined && other < one) ? other : one),
    undefined,
  );
}

/** The last of these ends and rows; undefined if one of them is missing or failed. */
function last(ends: readonly (number | undefined)[], ...own: (JournalRow | undefined)[]): number | undefined {
  if (ends.includes(undefined) || own.some((one) => one?.kind === "error")) return undefined;
  const row = own.reduce((most, one) => Math.max(most, one?.id ?? 0), 0);
  return ends.reduce<number>(greater, row);
}

const greater = (one: number, other: number | undefined): number => Math.max(one, other ?? 0);

function toLoop(row: JournalRow): LoopStart | undefined {
  const input = row.kind === "loop" ? fromRow(row) : undefined;
  return input && "result" in input && "loop" in input.result ? input.result.loop : undefined;
}
