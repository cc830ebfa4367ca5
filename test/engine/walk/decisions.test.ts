import { andAll, andSleep, andThen, defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";
import type { Execution, Transition } from "../../../src/engine/execution.ts";
import { listSteps } from "../../../src/engine/compare-steps.ts";
import { fromRow, toEntry } from "../../../src/engine/runs/journal-row.ts";
import type { Decision, JournalInput } from "../../../src/engine/walk/decision.ts";
import { Interpreter } from "../../../src/engine/walk/interpreter.ts";
import { toCodeTable } from "../../../src/engine/definition/code-table.ts";
import { interpret } from "./journals.ts";

const at = 2_000;
const code = { execute: () => 1 };
const flow = (attempts: number): WorkflowDefinition =>
  // The chain is a definition.
  defineWorkflow({ id: "w" }).andThen({ id: "s", retry: { attempts }, ...code }) as unknown as WorkflowDefinition;
const branches = defineWorkflow({ id: "w" }).andAll({
  id: "all",
  steps: [andThen({ id: "p", ...code }), andThen({ id: "q", ...code })],
}) as unknown as WorkflowDefinition;

const toExecution = ({ steps }: WorkflowDefinition): Execution => {
  return { id: "x", workflowId: "w", input: "{}", context: {}, startAt: 1_000, steps: listSteps(steps) };
};
/** The last decision on a journal. */
const decide = (workflow: WorkflowDefinition, journal: readonly JournalInput[], more?: Partial<Execution>): Decision =>
  interpret(workflow, { ...toExecution(workflow), ...more }, journal).at(-1)!;

const failure = (key: string, isFinal?: boolean): JournalInput => ({
  key,
  result: { at, error: { message: "no" }, isFinal },
});
const suspension = (key: string): JournalInput => ({ key, result: { at, suspended: { reason: "ask" } } });
const value = (key: string, of: string): JournalInput => ({ key, result: { at, value: of } });
const command = (next: Partial<Transition>): JournalInput => ({ command: { at, ...next } as Transition });
const hold = command({ to: "suspended", reason: "hold", pending: [] });
const resume = command({ to: "running", data: "7" });
const retry = command({ to: "running", isRetry: true });
const keysOf = ({ starts }: Decision): string[] => starts.map(({ key }) => key);

/** The last decision on a journal of failures, as a text. */
function decideFailures(attempts: number, ...ends: (boolean | undefined)[]): string {
  const journal = ends.map((isFinal, index) => failure(`s#${index + 1}`, isFinal));
  const { starts, transition } = decide(flow(attempts), journal);
  return transition?.to ?? `attempt ${starts[0]?.attempt}`;
}

it("takes a failure as final or not as its row says, whatever `retry` says now", () => {
  expect(decideFailures(5, true)).toBe("error");
  expect(decideFailures(1, false)).toBe("attempt 2");
  expect(decideFailures(1, false, false)).toBe("attempt 3");
  expect(decideFailures(1, false, true)).toBe("error");
});

it("takes a failure of a version that did not say it as final at the last attempt", () => {
  expect(decideFailures(1, undefined)).toBe("error");
  expect(decideFailures(2, undefined)).toBe("attempt 2");
  expect(decideFailures(2, undefined, undefined)).toBe("error");
});

it("reads a failure from its row as it was written, and from a row of an older version", () => {
  for (const isFinal of [true, false, undefined]) {
    const result = { at, error: { message: "no", shown: true, status: 404 }, isFinal };
    expect(fromRow(toEntry(1, "s#1", result).row)).toEqual({ key: "s#1", result });
  }
  const old = { id: 1, key: "s#1", kind: "error", at, body: '{"message":"no","shown":true}' } as const;
  expect(fromRow(old)).toEqual({ key: "s#1", result: { at, error: { message: "no", shown: true } } });
});

it("gives a step all its attempts again when it is resumed, and when the execution is retried", () => {
  const suspended = [failure("s#1", false), suspension("s#2")];
  expect(decide(flow(2), [...suspended, resume]).starts).toMatchObject([{ key: "s#3", attempt: 1, dueAt: undefined }]);
  const failed = [failure("s#1", false), failure("s#2", true)];
  expect(decide(flow(2), [...failed, retry]).starts).toMatchObject([{ key: "s#3", attempt: 1, dueAt: undefined }]);
});

it("runs a branch again whose failure came while the execution was held, and was not the first", () => {
  const failed = [hold, failure("p#1", true), failure("q#1", true), resume];
  expect(decide(branches, failed).transition).toMatchObject({ to: "error" });
  expect(keysOf(decide(branches, [...failed, retry]))).toEqual(["p#2", "q#2"]);
});

it("answers no waiting step when an execution continues that was held from outside", () => {
  const held = [suspension("p#1"), hold, resume];
  expect(decide(branches, held)).toMatchObject({ starts: [], transition: undefined });
  const { transition } = decide(branches, [...held, value("q#1", "1")]);
  expect(transition).toMatchObject({ to: "suspended", pending: [{ stepId: "p" }] });
});

it("answers the step of a person when a resume names none, though a sleep comes first", () => {
  const workflow = defineWorkflow({ id: "w" }).andAll({
    id: "all",
    steps: [andSleep({ id: "nap", duration: "1h" }), andThen({ id: "ask", ...code })],
  }) as unknown as WorkflowDefinition;
  const nap = value("nap?#1", '{"ms":3600000,"inlineMs":0}');
  expect(keysOf(decide(workflow, [nap, suspension("ask#1"), resume]))).toEqual(["ask#2"]);
});

const race = defineWorkflow({ id: "w" }).andRace({
  id: "race",
  steps: [andAll({ id: "deep", steps: [andThen({ id: "p", ...code })] }), andThen({ id: "q", ...code })],
}) as unknown as WorkflowDefinition;

it("lets the first of two results win a race, also if both came while the execution was held", () => {
  const [p, q] = [value("p#1", '"p"'), value("q#1", '"q"')];
  expect(decide(race, [hold, p, q, resume]).transition).toMatchObject({ to: "completed", result: '["p"]' });
  expect(decide(race, [hold, q, p, resume]).transition).toMatchObject({ to: "completed", result: '"q"' });
});

it("aborts the code inside a branch that has lost a race", () => {
  expect(decide(race, [value("q#1", "1")]).aborts).toEqual([{ key: "p#1", reason: "Another branch won" }]);
});

it("fails a race with its last branch, also after a retry", () => {
  const failed = [failure("p#1", true), failure("q#1", true)];
  expect(decide(race, failed).transition).toMatchObject({ to: "error" });
  expect(decide(race, [...failed, retry, failure("p#2", true)])).toMatchObject({ transition: undefined, aborts: [] });
});

it("ends a fork that has nothing to run after its start, not at the time of a copied result", () => {
  const workflow = defineWorkflow({ id: "w" })
    .andThen({ id: "s", ...code })
    .andAll({ id: "none", steps: [] }) as unknown as WorkflowDefinition;
  const fork = { from: "original", stepIndex: 1 };
  const { transition } = decide(workflow, [value("s#1", "1")], { fork, startAt: 5_000 });
  expect(transition).toMatchObject({ to: "completed", at: 5_000 });
});

it("forgets the outputs of the steps that run again when an execution goes back", () => {
  const workflow = ["a", "b", "c"].reduce(
    (chain: any, id) => chain.andThen({ id, ...code }),
    defineWorkflow({ id: "w" }),
  ) as WorkflowDefinition;
  const walk = new Interpreter(workflow, toCodeTable(workflow), toExecution(workflow));
  walk.next();
  for (const input of [value("a#1", "1"), value("b#1", "2"), suspension("c#1")]) walk.next(input);
  walk.confirmTransition();
  expect(["a", "b"].map((id) => walk.output("c", id))).toEqual(["1", "2"]);
  expect(keysOf(walk.next(command({ to: "running", stepId: "b" })))).toEqual(["b@1#1"]);
  expect(["a", "b"].map((id) => walk.output("b", id))).toEqual(["1", undefined]);
});
