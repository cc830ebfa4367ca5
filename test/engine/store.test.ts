import { statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished, vi } from "vitest";
import { Store } from "../../src/backends/embedded/store/store.ts";
import type { Expiry } from "../../src/backends/embedded/store/stored-state.ts";
import type { StoredState } from "../../src/backends/embedded/store/stored-state.ts";
import type { Execution, Transition } from "../../src/engine/execution.ts";
import type { JournalRow } from "../../src/engine/runs/journal-row.ts";
import type { Change } from "../../src/engine/runs/run-port.ts";
import { newFile } from "../harness/folders.ts";

const steps = [["a", "andThen", 0]] as const;
const execution = (id: string): Execution => ({ id, workflowId: "w", input: "{}", context: {}, startAt: 1, steps });
const noChange: Omit<Change, "row"> = {
  at: 3,
  events: [],
  transitions: [],
  hasOwn: false,
  epoch: 0,
  seq: 0,
  starts: [],
  parks: [],
};

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

it("counts the stored events again when a transaction has failed", () => {
  const store = new Store(":memory:", "normal");
  const event = { id: "e anonymous", name: "n", key: "", isFromCode: false, data: "1" };
  expect(store.sentEvents.count(event)).toEqual({ own: 0, side: 0 });
  const failing = (): void => {
    store.sentEvents.add(1, 1, event);
    throw new Error("another job of the batch");
  };
  expect(() => store.transaction(failing)).toThrow("another job");
  expect(store.sentEvents.count(event)).toEqual({ own: 0, side: 0 });
  store.close();
});

it("removes a wait that ends in the transaction of its suspension", () => {
  const store = new Store(":memory:", "normal");
  store.insertExecution(1, execution("a"), []);
  const state = store.state("a")!;
  const wait: Transition = { at: 2, to: "suspended", reason: "nap", pending: [], wake: [{ at: 9 }] };
  const save = (epoch: number, next: Transition): void => {
    const row: JournalRow = { id: store.newRow(), key: `!${epoch + 1}`, kind: "command", at: 2, body: "{}" };
    store.save(state, { ...noChange, row, transitions: [next], epoch }, () => undefined);
  };
  store.transaction(() => save(0, wait));
  expect(store.waits.hasTimer(1)).toBe(true);
  store.transaction(() => {
    save(1, { at: 2, to: "running", isWake: true });
    save(2, wait);
    save(3, { at: 3, to: "running" });
  });
  expect([store.state("a")!.epoch, store.waits.hasTimer(1)]).toEqual([4, false]);
  store.close();
});

it("does not cancel a child with its parent after the child was retried", () => {
  const store = new Store(":memory:", "normal");
  const parent = { id: "parent", cancels: true } as const;
  store.insertExecution(1, execution("parent"), []);
  for (const [number, id] of [
    [2, "retried"],
    [3, "other"],
  ] as const)
    store.insertExecution(number, { ...execution(id), parent }, []);
  store.move(2, 0, { at: 2, to: "error", error: { message: "broken" } });
  store.move(1, 0, { at: 3, to: "error", cancellation: { reason: "no" } });
  store.move(2, 1, { at: 4, to: "running", isRetry: true });
  expect(store.children.left()).toEqual([{ id: "other", reason: "no" }]);
  store.close();
});

it("retries a failure once, and nothing else", () => {
  const store = new Store(":memory:", "normal");
  const failed: Transition = { at: 2, to: "error", error: { message: "broken" } };
  const retry: Transition = { at: 3, to: "running", isRetry: true };
  store.insertExecution(1, execution("failed"), []);
  expect(store.move(1, 0, retry)).toBe(false); // it runs
  store.move(1, 0, failed);
  expect([store.move(1, 0, retry), store.move(1, 1, retry), store.move(1, 1, retry)]).toEqual([false, true, false]);
  expect(store.state("failed")).toMatchObject({ status: "running", epoch: 2 });
  // It fails again: a caller that has seen the first failure comes too late.
  store.move(1, 2, failed);
  expect([store.move(1, 1, retry), store.state("failed")?.status]).toEqual([false, "error"]);
  store.insertExecution(2, execution("cancelled"), []);
  store.move(2, 0, { at: 2, to: "error", cancellation: { reason: "no" } });
  store.insertExecution(3, execution("completed"), []);
  store.move(3, 0, { at: 2, to: "completed", result: "1" });
  expect([store.move(2, 1, retry), store.move(3, 1, retry)]).toEqual([false, false]);
  store.close();
});

it("writes nothing of a fork whose original was removed after its rows were read", () => {
  const store = new Store(":memory:", "normal");
  const row: JournalRow = { id: store.newRow(), key: "a#1", kind: "value", at: 1, body: "1" };
  store.insertExecution(1, execution("original"), []);
  store.add(1, row, 0, []);
  store.move(1, 0, { at: 2, to: "completed", result: "1" });
  const fork: Execution = { ...execution("fork"), fork: { from: "original", stepIndex: 1 } };
  const copies = [{ row: { ...row, id: store.newRow() }, original: row.id, copied: [] }];
  const change: Change = { ...noChange, row: undefined, copies };
  const state: StoredState = { number: 2, execution: fork, status: "running", epoch: 0 };
  const save = (): unknown => store.transaction(() => store.save(state, change, () => undefined));
  const expiry: Expiry = { now: 10, ended: 9, suspended: undefined, isDriven: () => false };
  store.transaction(() => store.sweep(0, expiry, 1));
  expect(store.state("original")).toBeUndefined();
  expect(save).toThrow("Execution original not found");
  expect(store.state("fork")).toBeUndefined();
  store.close();
});

it("counts a store as full at exactly its limit of bytes", () => {
  const path = newFile();
  const store = new Store(path, "normal");
  store.insertExecution(1, execution("a"), []);
  using other = new DatabaseSync(path);
  other.exec("pragma wal_checkpoint(truncate)");
  const { size } = statSync(path);
  expect([store.hasBytes(size), store.hasBytes(size + 1)]).toEqual([true, false]);
  store.close();
});

// What SQLite calls them: 1 waits for the disk when the log is moved into the file, 2 at every commit.
it.each([
  ["normal", 1],
  ["full", 2],
] as const)("hands durability %s on to the connection that writes", (durability, synchronous) => {
  const prepare = vi.spyOn(DatabaseSync.prototype, "prepare");
  onTestFinished(() => prepare.mockRestore());
  const store = new Store(newFile(), durability);
  const connection = prepare.mock.contexts[0] as DatabaseSync; // of a method of that class
  expect(connection.prepare("pragma synchronous").get()).toEqual({ synchronous });
  expect(connection.prepare("pragma journal_mode").get()).toEqual({ journal_mode: "wal" });
  store.close();
});
