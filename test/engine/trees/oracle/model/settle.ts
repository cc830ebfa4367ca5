import type { Node } from "../../make.ts";
import { drop, hasFailed, isDone, isOpen, type Run } from "./run.ts";

/** What the steps need to know of the journal: its row, the order of ends, and where new runs are noted. */
export interface Ground {
  /** The number of the row that lets them continue. */
  readonly taken: number;
  /** Of branches that end as soon as they begin, the one that was first. */
  firstOf(runs: readonly Run[]): Run;
  /** A run begins. */
  begun(run: Run): void;
}

/** Begins a step. What follows from that at once is left to `settle`. */
export function beginStep(node: Node, prefix: string, parent: Run | undefined, stepIndex: number, ground: Ground): Run {
  const own = { path: prefix + node.id, node, type: node.type, parent, stepIndex, prefix, number: -1 };
  const run = beginRun(own, ground);
  for (const suffix of firstEntries(node)) addEntry(run, suffix);
  return run;
}

type Place = Pick<Run, "path" | "node" | "type" | "parent" | "stepIndex" | "prefix" | "number">;

function beginRun(place: Place, ground: Ground): Run {
  const unbegun = { wait: undefined, count: undefined, end: undefined, isUnsure: false };
  const run: Run = { ...place, ...unbegun, entries: [], inner: [], begunAt: ground.taken };
  place.parent?.inner.push(run);
  ground.begun(run);
  return run;
}

/** The code that a step begins with. */
function firstEntries(node: Node): string[] {
  switch (node.type) {
    case "andThen":
    case "andTap":
    case "andMap":
      return [""];
    case "andBranch":
      return node.steps.map((_, index) => `?${index}`);
    case "andWhen":
    case "andForEach":
    case "andSleep":
    case "andSleepUntil":
    case "andWaitFor":
      return ["?"];
    default:
      return [];
  }
}

function addEntry({ entries }: Run, suffix: string): void {
  entries.push({ suffix, state: "in flight", attempt: 1, failedAt: undefined });
}

/** Derives what a run and those inside it do next, until every branch waits for something. */
export function settle(run: Run, ground: Ground): void {
  for (let before = -1; before !== sizeOf(run);) {
    before = sizeOf(run);
    if (!isOpen(run)) return;
    for (const one of run.inner) settle(one, ground);
    if (!hasFailed(run)) advance(run, ground);
  }
}

/** A number that grows whenever something begins or ends. */
const sizeOf = (run: Run): number =>
  1 + (isOpen(run) ? 0 : 1) + run.entries.length + run.inner.reduce((sum, one) => sum + sizeOf(one), 0);

function advance(run: Run, ground: Ground): void {
  const { node, path, prefix, stepIndex, inner, entries } = run;
  const begin = (one: Node, at = prefix): Run => beginStep(one, at, run, stepIndex, ground);
  /** Whether all of its own code so far has a result. */
  const isReady = entries.every(({ state }) => state === "done");
  const areDone = inner.every(isDone);
  if (run.type === "item" || run.type === "iteration") return advanceIteration(run, begin, isReady, areDone);
  switch (node.type) {
    case "andThen":
    case "andMap":
      if (isReady) run.end = "success";
      return;
    case "andTap":
      if (entries[0]!.state === "done" || entries[0]!.state === "failed") run.end = "success";
      return;
    case "andWhen":
      if (!isReady) return;
      if (node.holds !== true) run.end = "skipped";
      else if (inner.length === 0) begin(node.step);
      else if (areDone) run.end = "success";
      return;
    case "andAll":
      if (inner.length === 0) node.steps.forEach((one) => begin(one));
      else if (areDone) run.end = "success";
      if (node.steps.length === 0) run.end = "success";
      return;
    case "andRace": {
      if (inner.length === 0) return node.steps.forEach((one) => begin(one));
      const done = inner.filter(isDone);
      if (done.length === 0) return;
      const won = done.length === 1 ? done[0]! : ground.firstOf(done);
      // The others of a race that is over as soon as it begins: how far they come is not told.
      if (run.begunAt === ground.taken) for (const one of inner) if (one !== won) forget(one);
      inner.forEach(drop);
      run.end = "success";
      return;
    }
    case "andWorkflow":
      if (!areDone) return;
      if (inner.length < node.steps.length) begin(node.steps[inner.length]!, `${path}/`);
      else if (node.maps && entries.length === 0) addEntry(run, ">");
      else if (isReady) run.end = "success";
      return;
    case "andBranch": {
      if (!isReady) return;
      const chosen = node.steps.filter((_, index) => node.holds[index] === true);
      if (inner.length < chosen.length) chosen.forEach((one) => begin(one));
      else if (areDone) run.end = "success";
      return;
    }
    case "andForEach": {
      if (run.count === undefined) return;
      if (node.onError === "collect") for (const one of inner) if (hasFailed(one)) drop(one);
      const open = inner.filter(isOpen).length;
      if (inner.length < run.count && open < node.concurrency) beginIteration(run, "item", ground, node.maps);
      else if (open === 0) run.end = "success";
      return;
    }
    case "andDoWhile":
    case "andDoUntil":
      if (!areDone) return;
      if (inner.length < node.times) beginIteration(run, "iteration", ground, false);
      else run.end = "success";
      return;
    case "andSleep":
    case "andSleepUntil":
    case "andWaitFor":
      if (run.wait?.isOver) run.end = "success";
  }
}

function forget(run: Run): void {
  run.end = "aborted";
  run.isUnsure = true;
  run.inner.forEach(forget);
}

function beginIteration(loop: Run, type: "item" | "iteration", ground: Ground, maps: boolean): void {
  const number = loop.inner.length;
  const path = `${loop.path}/${number}`;
  const own = { path, node: loop.node, type, parent: loop, stepIndex: loop.stepIndex, prefix: `${path}/`, number };
  const run = beginRun(own, ground);
  if (maps) addEntry(run, "<");
}

/** The map of an item, then the steps; after those of an iteration its condition. */
function advanceIteration(run: Run, begin: (one: Node) => Run, isReady: boolean, areDone: boolean): void {
  const { steps } = run.node as Extract<Node, { times: number } | { concurrency: number }>; // a loop
  if (!isReady || !areDone) return;
  if (run.inner.length < steps.length) begin(steps[run.inner.length]!);
  else if (run.type === "iteration" && run.entries.length === 0) addEntry(run, "?");
  else run.end = "success";
}
