import { defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import type { WorkflowDefinition } from "../../../src/engine/definition.ts";
import type { Execution } from "../../../src/engine/execution.ts";
import { listSteps } from "../../../src/engine/compare-steps.ts";
import { fromRow, toEntryRow } from "../../../src/engine/runs/journal-row.ts";
import type { JournalInput } from "../../../src/engine/walk/decision.ts";
import { interpret } from "./journals.ts";

const at = 2_000;
const flow = (attempts: number): WorkflowDefinition =>
  // The chain is a definition.
  defineWorkflow({ id: "w" }).andThen({
    id: "s",
    retry: { attempts },
    execute: () => 1,
  }) as unknown as WorkflowDefinition;

/** The last decision on a journal of failures, as a text. */
function decide(attempts: number, ...ends: (boolean | undefined)[]): string {
  const workflow = flow(attempts);
  const execution: Execution = {
    id: "x",
    workflowId: "w",
    input: "{}",
    context: {},
    startAt: 1_000,
    steps: listSteps(workflow.steps),
  };
  const journal = ends.map((isFinal, index): JournalInput => ({
    key: `s#${index + 1}`,
    result: { at, error: { message: "no" }, isFinal },
  }));
  const { starts, transition } = interpret(workflow, execution, journal).at(-1)!;
  return transition?.to ?? `attempt ${starts[0]?.attempt}`;
}

describe("a failure in the journal", () => {
  it("is final or not as its row says, whatever `retry` says now", () => {
    expect(decide(5, true)).toBe("error");
    expect(decide(1, false)).toBe("attempt 2");
    expect(decide(1, false, false)).toBe("attempt 3");
    expect(decide(1, false, true)).toBe("error");
  });

  it("is final at the last attempt if its row is of a version that did not say it", () => {
    expect(decide(1, undefined)).toBe("error");
    expect(decide(2, undefined)).toBe("attempt 2");
    expect(decide(2, undefined, undefined)).toBe("error");
  });

  it("is read from its row as it was written, and from a row of an older version", () => {
    for (const isFinal of [true, false, undefined]) {
      const result = { at, error: { message: "no", shown: true, status: 404 }, isFinal };
      expect(fromRow(toEntryRow(1, "s#1", result))).toEqual({ key: "s#1", result });
    }
    const old = { id: 1, key: "s#1", kind: "error", at, body: '{"message":"no","shown":true}' } as const;
    expect(fromRow(old)).toEqual({ key: "s#1", result: { at, error: { message: "no", shown: true } } });
  });
});
