// oxlint-disable vitest/no-standalone-expect -- the checks are run inside a test
import { expect } from "vitest";
import { fromEventText } from "../../../../src/backends/embedded/store/tables/journal-table.ts";
import { toCodeTable } from "../../../../src/engine/definition/code-table.ts";
import type { WorkflowDefinition } from "../../../../src/engine/definition/definition.ts";
import { isClosing, type EventBody } from "../../../../src/engine/events.ts";
import { toDelays } from "../../../../src/engine/steps/select-steps.ts";
import type { HistoryRow } from "../../../../src/engine/contract/engine.ts";
import { fromRow, textOf, type JournalRow } from "../../../../src/engine/runs/journal-row.ts";
import { StepHistory, type HistoryOptions, type StepRecord } from "../../../../src/engine/steps/step-history.ts";
import type { AttemptPlan } from "../../../../src/engine/walk/decision.ts";
import { Interpreter } from "../../../../src/engine/walk/interpreter.ts";
import { toText } from "../../../../src/engine/walk/value.ts";
import { fromEntryKey } from "../../../../src/engine/walk/journal-keys.ts";
import type { Tree } from "../make.ts";
import { Model } from "./model/model.ts";
import { isInFlight } from "./model/run.ts";
import { countOf, nextAttemptOf, statusesOf } from "./model/statuses.ts";
import { copiesOf, type Row, type Stored } from "./stored.ts";
import { toDescribed } from "../../../../src/workflows/history/former-executions.ts";

const maxPlaces = 12;

/**
 * The steps that are read from a journal agree with the model and with a walk over the same rows, at several places of the
 * journal: the model says which steps and items there are, and their statuses, counts and delays; the walk inputs, outputs
 * and the numbers of attempts. Both know the code, the steps do not.
 */
export function checkSteps(stored: Stored, definition: WorkflowDefinition, tree: Tree): void {
  const { execution, beginning, rows } = stored;
  const model = new Model(tree, stored);
  const readRow = (id: number): string | undefined =>
    id === 0 ? execution.input : textOf(toJournalRow(rows.find(({ n }) => n === id)!));
  const delayOf = toDelays(definition, execution.id);
  const walk = new Interpreter(definition, toCodeTable(definition), execution);
  const history = [toHistory(undefined, beginning), ...rows.map((row) => toHistory(toJournalRow(row), row))];
  const every = Math.max(1, Math.floor(rows.length / maxPlaces));
  /** The last plan of each entry of a step, and the plan of each key. */
  const started = new Map<string, AttemptPlan>();
  const plans = new Map<string, AttemptPlan>();
  const events: EventBody[] = [];
  let isOver = false;
  const copies = copiesOf({ execution, rows });
  for (const [place, { row, events: own }] of history.entries()) {
    const { starts, transition } = walk.next(row && fromRow(row));
    // On Restate, a command may have been first: then it follows.
    if (transition && own.some(isClosing)) walk.confirmTransition();
    for (const plan of starts) {
      plans.set(plan.key, plan);
      if (plan.suffix === "") started.set(plan.path, plan);
    }
    const isSuspended = own.some(({ type }) => type === "workflow-suspended");
    if (place > 0) model.take(rows[place - 1]!);
    if (isSuspended || (place === copies && history[0]!.events.some(({ type }) => type === "workflow-suspended")))
      model.status = "suspended";
    if (!model.isJoining) checkWaiting(walk, model);
    if (row?.kind === "command" && JSON.parse(row.body!).to === "running") isOver = false;
    events.push(...own);
    isOver ||= own.some(({ type }) => type === "workflow-complete" || type === "workflow-error");
    if (model.isJoining) continue; // the next row is part of the same change
    if (place < copies || (place % every !== 0 && place < history.length - 1)) continue;
    const read = (options: HistoryOptions): StepRecord[] => {
      const steps = new StepHistory(toDescribed(execution), { ...options, delayOf });
      for (const one of history.slice(0, place + 1)) steps.add(one);
      return steps.records();
    };
    const all = read({});
    const records = new Map(all.map((record) => [record.node.path, record]));
    checkEvents(records, events, isOver);
    checkModel(records, model);
    if (place === history.length - 1) checkSelections(all, read);
    checkWalk(records, walk, started, readRow);
    if (row && row.kind !== "command" && row.kind !== "wake") checkAttempt(records, row, plans);
  }
}

/** Order and ends are those of the events. Steps that a fork has copied have none. */
function checkEvents(records: ReadonlyMap<string, StepRecord>, events: readonly EventBody[], isOver: boolean): void {
  const begins = new Map<string, number>();
  const ends = new Map<string, unknown>();
  for (const [index, { type, from = "", status, stepType }] of events.entries()) {
    if (type === "step-start") {
      begins.set(from, index);
      ends.delete(from);
      // A loop that begins again has only the iterations of its last run.
      if (/^and(ForEach|Do)/.test(stepType as string))
        for (const path of begins.keys()) if (path.startsWith(`${from}/`)) begins.delete(path);
    }
    if (type === "step-complete") ends.set(from, status);
  }
  const order = [...begins].toSorted(([, one], [, other]) => one - other).map(([path]) => path);
  expect(
    [...records.keys()].filter((path) => begins.has(path)),
    "the order of begin",
  ).toEqual(order);
  for (const [path, { status, endAt, attempts }] of records) {
    const isComplete = status === "success" || status === "skipped";
    if (begins.has(path)) expect(isComplete ? status : undefined, `the end of ${path}`).toBe(ends.get(path));
    const isOpen = status === "running" || status === "waiting" || status === "suspended";
    expect(endAt === null, `the end of ${path}, ${status}`).toBe(isOpen);
    if (!isOpen)
      expect(
        attempts.filter((one) => one.endAt === null),
        `open attempts of ${path}`,
      ).toEqual([]);
  }
  const open = [...records.values()].filter(({ endAt }) => endAt === null).map(({ node }) => node.path);
  if (isOver) expect(open, "steps that are open after the end").toEqual([]);
}

/** A walk that is cut at this row waits for what the model says, so that is what continues after a crash. */
function checkWaiting(walk: Interpreter, model: Model): void {
  const toStable = (key: string): string => key.replace(/(@\d+)?#\d+$/, "");
  const held = new Set(model.held.map(({ key }) => toStable(key)));
  const leaves = model.status === "ended" ? [] : model.leaves();
  const keys = leaves.map((leaf) => (isInFlight(leaf) ? leaf.run.path + leaf.entry.suffix : `~${leaf.run.path}`));
  expect([...walk.waitingKeys()].map(toStable).toSorted(), "what the walk waits for").toEqual(
    keys.filter((key) => !held.has(key)).toSorted(),
  );
}

/** Each step, item and iteration that the model knows, with its status; of loops the counts; the ends of delays. */
function checkModel(records: ReadonlyMap<string, StepRecord>, model: Model): void {
  const statuses = statusesOf(model);
  const isSure = (path: string): boolean => model.runs.get(path)?.isUnsure !== true;
  const found = [...records].map(([path, { status }]) => `${path} ${status}`);
  const sure = (lines: string[]): string[] => lines.filter((line) => isSure(line.split(" ")[0]!)).toSorted();
  expect(sure(found), "steps and their statuses").toEqual(
    sure([...statuses].map(([path, status]) => `${path} ${status}`)),
  );
  for (const [path, run] of model.runs) {
    const { parent, count, nextAttemptAt, endAt } = records.get(path) ?? {};
    if (run.isUnsure) continue;
    expect(parent, `the step around ${path}`).toBe(run.parent?.path);
    const isLoop = run.type === "andForEach" || run.type === "andDoWhile" || run.type === "andDoUntil";
    if (run.inner.every(({ path: inner }) => isSure(inner)))
      expect(count, `the iterations of ${path}`).toEqual(isLoop ? countOf(run, model, statuses) : undefined);
    const delay = endAt === null ? nextAttemptOf(run, model) : undefined;
    expect(nextAttemptAt === undefined, `the delay of ${path}`).toBe(delay === undefined);
    if (!delay) continue;
    expect(nextAttemptAt, `the delay of ${path}`).toBeGreaterThanOrEqual(delay[0]);
    expect(nextAttemptAt, `the delay of ${path}`).toBeLessThanOrEqual(delay[1]);
  }
}

/** The loops around a step, from outside to inside. */
const loopsOf = (path: string): string[] =>
  [...path.matchAll(/\/\d+(?=\/|$)/g)].map(({ index }) => path.slice(0, index));

/** Loops show their iterations only under their own path, in pages, and those of inner loops only under theirs. */
function checkSelections(all: readonly StepRecord[], read: (options: HistoryOptions) => StepRecord[]): void {
  const isIn = (loop: string | undefined): StepRecord[] => all.filter(({ node }) => loopsOf(node.path).at(-1) === loop);
  expect(read({ isFolded: true }), "the steps outside of loops").toEqual(isIn(undefined));
  for (const { node, count } of all.filter((record) => record.count)) {
    const under = node.path;
    const pages: StepRecord[] = [];
    for (let after = 0; ;) {
      const page = read({ isFolded: true, under, after, limit: 2 }).slice(0, 2);
      if (page.length === 0) break;
      pages.push(...page);
      after = page.at(-1)!.order;
    }
    expect(pages, `the steps under ${under}`).toEqual(isIn(under));
    const iterations = pages.filter(({ parent }) => parent === under);
    const { total, ...byStatus } = count!;
    const sum = Object.values(byStatus).reduce((one, other) => one + other, 0);
    expect(iterations.length, `the iterations of ${under}`).toBe(sum);
    expect(total).toBeGreaterThanOrEqual(sum);
  }
  for (const record of all.slice(0, maxPlaces)) expect(read({ path: record.node.path })).toEqual([record]);
}

function checkWalk(
  records: ReadonlyMap<string, StepRecord>,
  walk: Interpreter,
  started: ReadonlyMap<string, AttemptPlan>,
  readRow: (row: number) => string | undefined,
): void {
  const waiting = new Map(
    [...walk.waitingKeys()]
      .filter((key) => !key.startsWith("~"))
      .map((key) => [fromEntryKey(key)!.path.replace(/\/$/, ""), key]),
  );
  for (const path of waiting.keys())
    if (path) expect(["running", "waiting"], `${path}, which the walk waits for`).toContain(records.get(path)?.status);
  for (const [path, { node, status, input, output, attempts }] of records) {
    const plan = started.get(path);
    if (plan) expect(toText(input, readRow), `the input of ${path}`).toEqual(toText(plan.data, readRow));
    const walked = walk.output("", path);
    if (walked !== undefined && (status === "success" || status === "skipped"))
      expect(toText(output, readRow), `the output of ${path}`).toEqual(toText(walked, readRow));
    const isLeaf = node.type === "andThen" || node.type === "andTap";
    if (!isLeaf || status !== "running") continue;
    expect([...waiting.keys()], "steps that run").toContain(path);
    expect(attempts.at(-1), `the attempt of ${path} in flight`).toMatchObject({ attempt: plan!.attempt, endAt: null });
  }
}

function checkAttempt(
  records: ReadonlyMap<string, StepRecord>,
  { key, at, kind }: JournalRow,
  plans: ReadonlyMap<string, AttemptPlan>,
): void {
  const path = fromEntryKey(key)!.path.replace(/\/$/, "");
  const record = records.get(path);
  if (!record) return; // the result of the workflow
  const last = record.attempts.findLast(({ endAt }) => endAt === at);
  expect(last, `the attempt of ${key}`).toMatchObject({ attempt: plans.get(key)!.attempt });
  expect(last?.error !== undefined, `the error of ${key}`).toBe(kind === "error");
}

function toJournalRow({ n, key, kind, at, body }: Row): JournalRow {
  return { id: n, key, kind: kind === "signal" ? "command" : kind, at, body } as JournalRow; // as the server stored it
}

const toHistory = (row: JournalRow | undefined, { at, events, copied }: Stored["beginning"]): HistoryRow => ({
  row,
  at,
  events: events === null ? [] : fromEventText(events),
  copied: copied === null ? undefined : JSON.parse(copied),
});
