import { expect, it } from "vitest";
import { Store } from "../../src/backends/embedded/store.ts";
import type { Execution } from "../../src/engine/types.ts";

const steps = [["a", "andThen", 0]] as const;
const execution = (id: string): Execution => ({ id, workflowId: "w", input: "{}", context: {}, startAt: 1, steps });

it("finds an execution whose definition was first written in a transaction that failed", () => {
  const store = new Store(":memory:", "normal");
  const failing = (): void => {
    store.begin(1, execution("a"), []);
    store.begin(2, execution("b"), []);
    throw new Error("another job of the batch");
  };
  expect(() => store.transaction(failing)).toThrow("another job");
  store.transaction(() => store.begin(1, execution("a"), [])); // the writer runs it again, alone
  expect(store.state("a")).toMatchObject({ execution: execution("a"), status: "running" });
  store.close();
});
