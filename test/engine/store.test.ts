import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished, vi } from "vitest";
import { Store } from "../../src/backends/embedded/store/store.ts";
import type { Execution } from "../../src/engine/execution.ts";

const steps = [["a", "andThen", 0]] as const;
const execution = (id: string): Execution => ({ id, workflowId: "w", input: "{}", context: {}, startAt: 1, steps });

it("finds an execution whose definition was first written in a transaction that failed", () => {
  const store = new Store(":memory:", "normal");
  const failing = (): void => {
    store.insertExecution(1, execution("a"), []);
    store.insertExecution(2, execution("b"), []);
    throw new Error("another job of the batch");
  };
  expect(() => store.transaction(failing)).toThrow("another job");
  store.transaction(() => store.insertExecution(1, execution("a"), [])); // the writer runs it again, alone
  expect(store.state("a")).toMatchObject({ execution: execution("a"), status: "running" });
  store.close();
});

// What SQLite calls them: 1 waits for the disk when the log is moved into the file, 2 at every commit.
it.each([
  ["normal", 1],
  ["full", 2],
] as const)("hands durability %s on to the connection that writes", (durability, synchronous) => {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-store-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const prepare = vi.spyOn(DatabaseSync.prototype, "prepare");
  onTestFinished(() => prepare.mockRestore());
  const store = new Store(join(folder, "data.db"), durability);
  const connection = prepare.mock.contexts[0] as DatabaseSync; // of a method of that class
  expect(connection.prepare("pragma synchronous").get()).toEqual({ synchronous });
  expect(connection.prepare("pragma journal_mode").get()).toEqual({ journal_mode: "wal" });
  store.close();
});
