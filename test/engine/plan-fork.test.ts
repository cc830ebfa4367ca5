import { andAll, andSleep, andThen, defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { listSteps } from "../../src/engine/compare-steps.ts";
import type { Execution } from "../../src/engine/execution.ts";
import { createProgram } from "../../src/engine/attempts/live-walk.ts";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import { toCodeTable } from "../../src/engine/definition/code-table.ts";
import { planFork, toCopiedRows, type ForkSource } from "../../src/engine/fork.ts";
import { fromRow, type JournalRow } from "../../src/engine/runs/journal-row.ts";
import { Interpreter } from "../../src/engine/walk/interpreter.ts";
import { createTestLogger } from "../harness/server.ts";
import { programOptions } from "./trees/play/world.ts";

type WithoutPlace<One> = One extends unknown ? Omit<One, "id" | "at"> : never;
type Row = WithoutPlace<JournalRow>;
const value = (key: string, of: unknown): Row => ({ key, kind: "value", body: JSON.stringify(of) });
const wait = (key: string): Row => value(key, { ms: 3_600_000, inlineMs: 0 });
/** The end of a wait; `isJoined` if the next row ends another one at the same moment. */
const wake = (key: string, isJoined?: true): Row => ({ key, kind: "wake", body: JSON.stringify({ isJoined }) });

const toExecution = ({ steps }: WorkflowDefinition, fork?: Execution["fork"]): Execution => ({
  id: fork ? "fork" : "original",
  workflowId: "w",
  input: '"in"',
  context: {},
  startAt: 1_000,
  steps: listSteps(steps),
  fork,
});

/** Forks an execution with these rows from its second step. */
function plan(workflow: WorkflowDefinition, rows: readonly Row[]): Promise<ForkSource> {
  const { createWalk } = createProgram(programOptions(workflow, createTestLogger([])));
  const journal = rows.map((row, index): JournalRow => ({ ...row, id: index + 1, at: 1_000 + index }));
  const copied = toCopiedRows(listSteps(workflow.steps), journal, 1);
  return planFork(toExecution(workflow, { from: "original", stepIndex: 1 }), createWalk, "original", copied);
}

/** The output of a step of the original, by its rows. */
function outputOf(workflow: WorkflowDefinition, rows: readonly Row[], path: string): unknown {
  const walk = new Interpreter(workflow, toCodeTable(workflow), toExecution(workflow));
  walk.next();
  for (const [index, row] of rows.entries()) {
    const { transition } = walk.next(fromRow({ ...row, id: index + 1, at: 1_000 + index }));
    if (transition) walk.confirmTransition();
  }
  return walk.output("", path);
}

const begun = [
  { type: "workflow-start" },
  { type: "step-start", from: "end", stepIndex: 1, stepType: "andThen", attempt: 1 },
];
const keysOf = ({ rows }: ForkSource): string[] => rows.map(({ key }) => key);
const nap = (id: string) => andSleep({ id, duration: "1h" });
const end = { id: "end", execute: () => "end" };

it("copies waits that ended together, and begins the step after them", async () => {
  const workflow = defineWorkflow({ id: "w" })
    .andAll({ id: "all", steps: [nap("a"), nap("b"), nap("c")] })
    .andThen(end);
  const ends = [wake("~b#1", true), wake("~a#1", true), wake("~c#1")];
  const made = await plan(workflow, [wait("a?#1"), wait("b?#1"), wait("c?#1"), ...ends]);
  expect(keysOf(made)).toEqual(["a?#1", "b?#1", "c?#1", "~b#1", "~a#1", "~c#1"]);
  expect(made).toMatchObject({ from: "original", events: begun, transition: undefined });
  expect(made.copied).toEqual([["all"], ["a"], ["b"], ["c"]]);
  const ended = [
    [["b", "success"]],
    [["a", "success"]],
    [
      ["c", "success"],
      ["all", "success"],
    ],
  ];
  expect(made.rows.map(({ copied }) => copied)).toEqual([[], [], [], ...ended]);
});

it("does not wait for the others of waits that ended together when the first of them has won the race", async () => {
  const workflow = defineWorkflow({ id: "w" })
    .andRace({ id: "race", steps: [nap("a"), nap("b")] })
    .andThen(end);
  const made = await plan(workflow, [wait("a?#1"), wait("b?#1"), wake("~a#1", true), wake("~b#1")]);
  expect(keysOf(made).slice(0, 3)).toEqual(["a?#1", "b?#1", "~a#1"]);
  expect(made.events).toEqual(begun);
});

it("copies the last wait of a step that asked several times, though others ended together with the first", async () => {
  const workflow = defineWorkflow({ id: "w" })
    .andAll({ id: "all", steps: [nap("a"), andThen({ id: "ask", execute: ({ suspend }) => suspend("ask") })] })
    .andThen(end);
  const ask = (key: string): Row => ({
    key,
    kind: "suspended",
    body: JSON.stringify({ reason: "ask", due: { at: 5_000, isElapsed: true } }),
  });
  const made = await plan(workflow, [
    wait("a?#1"),
    ask("ask#1"),
    wake("~a#1", true),
    wake("~ask#1"),
    ask("ask#2"),
    wake("~ask#2"),
    value("ask#3", 1),
  ]);
  expect(keysOf(made)).toEqual(["a?#1", "~a#1", "ask#1"]);
  expect(made.events).toEqual(begun);
});

it("has the winner that the original has, whatever is around the waits that ended together", async () => {
  const workflow = defineWorkflow({ id: "w" })
    .andRace({ id: "race", steps: [andAll({ id: "deep", steps: [nap("a")] }), nap("b")] })
    .andThen({ id: "end", execute: ({ data }) => data });
  const rows = [wait("a?#1"), wait("b?#1"), wake("~a#1", true), wake("~b#1")];
  const { rows: copied } = await plan(workflow, rows);
  const fork = copied.map(({ row, key }) => ({ ...row, key }));
  expect(outputOf(workflow, rows, "race")).toEqual('["in"]');
  expect(outputOf(workflow, fork.map(unjoined), "race")).toEqual('["in"]');
});

it("ends at once when no step before or after the beginning of the fork leaves a row", async () => {
  const workflow = defineWorkflow({ id: "w" }).andAll({ id: "one", steps: [] }).andAll({ id: "two", steps: [] });
  expect(await plan(workflow, [])).toMatchObject({
    rows: [],
    copied: [["one"], ["one", "success"]],
    transition: { to: "completed", result: "[]" },
  });
});

const unjoined = (row: Row): Row => (row.kind === "wake" ? { ...row, body: "{}" } : row);
