import { expect, it } from "vitest";
import { executionStatuses } from "../../../src/engine/execution.ts";
import { afterTransition, isEnd, isLegal } from "../../../src/engine/rules/transitions.ts";
import { by, start, states, transitions } from "./every-state.ts";

const legal: Readonly<Record<string, readonly string[]>> = {
  start: ["suspend", "complete", "fail", "cancel"],
  suspend: ["resume", "fail", "cancel"],
  resume: ["suspend", "complete", "fail", "cancel"],
  retry: ["suspend", "complete", "fail", "cancel"],
  complete: [],
  fail: ["retry"],
  cancel: [],
};

it.each(states)("allows after %s the transitions that docs/workflows.md names, and no other", (name, state) => {
  expect(transitions.filter(([, next]) => isLegal(state, next)).map(([next]) => next)).toEqual(legal[name]);
});

it("gives a state the caller of its last retry, over later transitions", () => {
  const [, resume, retry] = transitions.map(([, next]) => next);
  const retried = afterTransition({ ...start, status: "error", epoch: 4 }, retry!);
  expect(retried).toEqual({ ...start, status: "running", epoch: 5, last: retry, retriedBy: by });
  expect(afterTransition(retried, resume!)).toMatchObject({ epoch: 6, retriedBy: by });
});

it("ends an execution by a result, an error or a cancel only", () => {
  expect(executionStatuses.filter(isEnd)).toEqual(["completed", "error"]);
});
