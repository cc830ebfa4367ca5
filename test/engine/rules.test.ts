// The rules that both backends use. SQL conditions that repeat one are compared with it.
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { Store } from "../../src/backends/embedded/store/store.ts";
import type { EventFilter, ExecutionState, Transition } from "../../src/engine/execution.ts";
import { afterCrash, toVerdict, type CrashRole } from "../../src/engine/rules/crashes.ts";
import { mayTake } from "../../src/engine/rules/take-events.ts";
import { afterTransition, isLegal } from "../../src/engine/rules/transitions.ts";
import { toBounded } from "../../src/engine/rules/value-bound.ts";
import { newFile } from "../harness/folders.ts";

const by = { userId: "ada", user: { id: "ada" } };
/** Every kind of transition; `undefined` is the start. */
const transitions: readonly [string, Transition][] = [
  ["suspend", { at: 2, to: "suspended", reason: "x", pending: [] }],
  ["resume", { at: 2, to: "running" }],
  ["retry", { at: 2, to: "running", isRetry: true, by }],
  ["complete", { at: 2, to: "completed", result: "1" }],
  ["fail", { at: 2, to: "error", error: { message: "x" } }],
  ["cancel", { at: 2, to: "error", cancellation: { reason: "x" } }],
];
const start = { execution: { id: "e", workflowId: "w", input: "{}", context: {}, startAt: 1, steps: [] } } as const;
const states: readonly [string, ExecutionState][] = [
  ["start", { ...start, status: "running", epoch: 0 }],
  ...transitions.map(([name, last]): [string, ExecutionState] => [name, { ...start, status: last.to, epoch: 1, last }]),
];
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

it.each(states)("stores after %s what is legal, and nothing after an end but a retry of a failure", (_, state) => {
  for (const [name, next] of transitions) {
    const store = new Store(":memory:", "normal");
    store.insertExecution(1, state.execution, []);
    if (state.last)
      expect(store.move(1, 0, { ...state.last, ...(state.last.to === "running" && { isRetry: undefined }) })).toBe(
        true,
      );
    const isMade = store.move(1, state.epoch, next);
    const hasEnded = state.status === "completed" || state.status === "error";
    if (isLegal(state, next)) expect([name, isMade]).toEqual([name, true]);
    else if (hasEnded || name === "retry") expect([name, isMade]).toEqual([name, false]);
    expect(store.move(1, state.epoch, next)).toBe(false); // the epoch is another one, or it was refused
    store.close();
  }
});

it.each<
  [string, boolean, { userId?: string; isFromCode?: true; isOlder?: true }, Partial<EventFilter>, string | undefined]
>([
  ["an event for everyone", true, {}, {}, undefined],
  ["an event for its own user", true, { userId: "ada" }, {}, "ada"],
  ["no event for another user", false, { userId: "ada" }, {}, "bob"],
  ["no event for a user, if it has none itself", false, { userId: "ada" }, {}, undefined],
  ["no event that is older", false, { isOlder: true }, {}, undefined],
  ["an older event, if any age counts", true, { isOlder: true }, { isAnyAge: true }, undefined],
  [
    "no older event for another user, if any age counts",
    false,
    { isOlder: true, userId: "ada" },
    { isAnyAge: true },
    "bob",
  ],
  ["no event of a caller, if only those of code count", false, {}, { isFromCode: true }, undefined],
  ["an event of code", true, { isFromCode: true }, { isFromCode: true }, undefined],
])("lets an execution take %s", (_, expected, head, filter, userId) => {
  const event = { isFromCode: false, isOlder: false, ...head };
  expect(mayTake({ step: "s", name: "n", ...filter }, event, { userId })).toBe(expected);
});

it("replaces a value over limits.executionBytes by a final error, and counts bytes", () => {
  const limit = { bytes: 6, executionBytes: 10 };
  const fits = { at: 1, value: '"é"' };
  expect(toBounded(fits, limit)).toBe(fits);
  const suspended = { at: 1, suspended: { reason: "x", data: '"éé"' } };
  const error = { message: expect.stringContaining("limits.executionBytes"), shown: true };
  for (const long of [{ at: 1, value: '"éé"' }, suspended])
    expect(toBounded(long, limit)).toEqual({ at: 1, error, isFinal: true, hasRecords: undefined });
});

it("continues after one crash, starts one at a time after two, and suspends after three", () => {
  const once = afterCrash(0, "other");
  const twice = afterCrash(once, "other");
  expect([once, twice].map(toVerdict)).toEqual(["continue", "suspect"]);
  expect(toVerdict(afterCrash(twice, "other"))).toBe("suspect"); // it had not been started
  expect(toVerdict(afterCrash(twice, "beside"))).toBe("suspect");
  expect(toVerdict(afterCrash(twice, "last"))).toBe("suspend");
});

it("counts crashes in the file as the rule does, for every count, role and row", () => {
  // Suspect n has `isolated` = -n: the last one of two is -2.
  const roles: readonly [number, CrashRole][] = [
    [0, "other"],
    [-1, "beside"],
    [-2, "last"],
  ];
  for (const [isolated, role] of roles) {
    for (let count = 0; count <= 4; count++) {
      for (const hasNewRow of [false, true]) {
        const file = newFile();
        const before = new Store(file, "normal");
        before.insertExecution(1, start.execution, []);
        before.insertExecution(2, { ...start.execution, id: "last" }, []);
        before.transaction(() => before.processes.start());
        before.close(); // not ended: as after a crash
        const db = new DatabaseSync(file);
        const crashRow = hasNewRow ? 7 : 0;
        db.exec(
          `update executions set crashes = ${count}, isolated = ${isolated}, crash_row = ${crashRow} where number = 1`,
        );
        db.exec("update executions set crashes = 2, isolated = -2, crash_row = 0 where number = 2");
        const after = new Store(file, "normal");
        after.transaction(() => after.processes.start());
        after.close();
        const { crashes } = db.prepare("select crashes from executions where number = 1").get()!;
        db.close();
        expect([role, count, hasNewRow, crashes]).toEqual([
          role,
          count,
          hasNewRow,
          hasNewRow ? afterCrash(0, "other") : afterCrash(count, role),
        ]);
      }
    }
  }
});
