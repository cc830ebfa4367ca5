// Conditions in SQL that repeat a rule are compared with it.
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { Store } from "../../../src/backends/embedded/store/store.ts";
import { afterCrash, type CrashRole } from "../../../src/engine/rules/crashes.ts";
import { isLegal } from "../../../src/engine/rules/transitions.ts";
import { newFile } from "../../harness/folders.ts";
import { start, states, transitions } from "./every-state.ts";

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
