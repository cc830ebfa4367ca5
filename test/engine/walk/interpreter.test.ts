import fc from "fast-check";
import { expect, it } from "vitest";
import type { Execution, Transition } from "../../../src/engine/execution.ts";
import type { Decision, JournalInput } from "../../../src/engine/walk/decision.ts";
import { listSteps } from "../../../src/engine/compare-steps.ts";
import { toWorkflow } from "../trees/code.ts";
import { print, tree } from "../trees/make.ts";
import { Luck } from "../trees/luck.ts";
import { interpret, makeJournal } from "./journals.ts";

const noCode = {
  called: () => expect.unreachable("the interpreter ran user code"),
  wrong: (message: string) => expect.unreachable(message),
  isMended: () => expect.unreachable(),
  now: () => expect.unreachable(),
};

it("maps 1,000 generated journals to the same decisions as a plain function of data, and runs no code", () => {
  const ends = { suspended: 0, completed: 0, error: 0 };
  const seen = { journals: 0, inputs: 0, starts: 0, aborts: 0, references: 0, wakes: 0, loops: 0, ...ends };
  fc.assert(
    fc.property(tree, fc.nat(), (nodes, seed) => {
      const workflow = toWorkflow("tree", nodes, noCode);
      const execution: Execution = {
        id: "x",
        workflowId: "tree",
        input: JSON.stringify({ seed }),
        context: {},
        startAt: 1_000,
        steps: listSteps(workflow.steps),
      };
      const journal = makeJournal(workflow, execution, new Luck(seed));
      const decisions = interpret(workflow, execution, journal);
      const copies = interpret(workflow, plain(execution), plain(journal));
      expect(plain(copies), print(nodes)).toEqual(plain(decisions));
      // Plain data: nothing is lost on the way through JSON but fields that are undefined.
      expect(plain(decisions), print(nodes)).toEqual(decisions);
      checkDecisions(journal, decisions);

      seen.journals++;
      seen.inputs += journal.length;
      seen.wakes += journal.filter((input) => "wake" in input).length;
      seen.loops += journal.filter((input) => "key" in input && "loop" in input.result).length;
      for (const { starts, aborts, transition } of decisions) {
        seen.starts += starts.length;
        seen.aborts += aborts.length;
        if (transition && transition.to !== "running") seen[transition.to]++;
        if (starts.some(({ data }) => typeof data === "object")) seen.references++;
      }
    }),
    { numRuns: 1_000 },
  );
  console.log("interpreted", JSON.stringify(seen));
  expect(seen.journals).toBeGreaterThanOrEqual(1_000);
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
});

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value));

const legal: Record<string, string[]> = {
  running: ["suspended", "completed", "error"],
  suspended: ["running", "error"],
  completed: [],
  error: [],
};

/** The rules that hold for the decisions of any journal. */
function checkDecisions(journal: readonly JournalInput[], decisions: readonly Decision[]): void {
  const open = new Set<string>();
  const started = new Set<string>();
  const parked = new Set<string>();
  let status: string = "running";
  const move = (transition: Transition<unknown>): void => {
    expect(legal[status], `from ${status} to ${transition.to}`).toContain(transition.to);
    status = transition.to;
  };
  for (const [index, { events, starts, aborts, parks, transition }] of decisions.entries()) {
    const input = index === 0 ? undefined : journal[index - 1]!;
    if (input && "key" in input) expect(open.delete(input.key), `${input.key} was waited for`).toBe(true);
    if (input && "command" in input) move(input.command);
    if (input && "wake" in input) {
      expect(parked.delete(input.wake.key), `${input.wake.key} was waited for`).toBe(true);
      if (status !== "running") move({ at: input.wake.at, to: "running" });
    }
    const isJoined = input && "wake" in input && input.wake.isJoined;
    const isHeld = status !== "running" || isJoined;
    if (isHeld) expect({ events, starts, transition }).toEqual({ events: [], starts: [], transition: undefined });
    for (const { key } of starts) {
      expect(started.has(key), `${key} is started once`).toBe(false);
      started.add(key);
      open.add(key);
    }
    for (const { key } of parks) parked.add(key!);
    for (const { key } of aborts) expect(open.delete(key), `${key} was in flight`).toBe(true);
    if (transition) move(transition);
  }
  expect(["completed", "error"]).toContain(status);
}
