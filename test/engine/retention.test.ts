import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { startRetention } from "../../src/backends/embedded/retention.ts";
import { Store } from "../../src/backends/embedded/store/store.ts";
import type { Expiry, SweepResult } from "../../src/backends/embedded/store/stored-state.ts";
import type { Writer } from "../../src/backends/embedded/store/writer.ts";
import type { Execution } from "../../src/engine/execution.ts";

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const start = 1_800_000_000_000;

let stop = (): void => {};
/** The times before which ended executions were removed, relative to the start. */
let swept: number[] = [];
let isFailing = false;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"], now: start });
  swept = [];
  const sweep = (_: number, { ended }: Expiry): SweepResult => {
    swept.push(ended! + 7 * day - start);
    return { next: undefined, waited: [] };
  };
  // The parts that it calls.
  const conversations = { hidden: () => undefined };
  const others = { removeBefore: () => 0 };
  const store = { sweep, conversations, sentEvents: others, usage: others } as unknown as Store;
  isFailing = false;
  const write = ({ work, done, fail }: any): void => (isFailing ? fail(new Error("unreadable")) : done(work()));
  const writer = { write } as Writer;
  stop = startRetention(
    { endedMs: 7 * day, suspendedMs: undefined, conversationsMs: undefined, eventsMs: 86_400_000 },
    { store, writer, clock: systemClock, isDriven: () => false, isBusy: () => false, onRemoved: () => {} },
  );
});
afterEach(() => {
  stop();
  vi.useRealTimers();
});
const jump = (ms: number): void => void vi.setSystemTime(Date.now() + ms);
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += minute) await vi.advanceTimersByTimeAsync(minute);
}

it("sweeps expired executions by the clock, once a minute", async () => {
  await pass(3 * minute);
  expect(swept).toEqual([0, minute, 2 * minute, 3 * minute]);
});

it("sweeps again a minute after a sweep that failed", async () => {
  isFailing = true;
  await pass(minute);
  isFailing = false;
  await pass(minute);
  expect(swept).toEqual([0, 2 * minute]);
});

it("keeps a suspended execution that has expired while this process drives it", () => {
  const store = new Store(":memory:", "normal");
  const execution: Execution = { id: "e", workflowId: "w", input: "{}", context: {}, startAt: start, steps: [] };
  store.insertExecution(1, execution, []);
  store.move(1, 0, { at: start, to: "suspended", reason: "ask", pending: [] });
  const expiry = { now: start + 2 * day, ended: undefined, suspended: start + day };
  expect(store.sweep(0, { ...expiry, isDriven: () => true }, 1).waited).toEqual([]);
  expect(store.sweep(0, { ...expiry, isDriven: () => false }, 1).waited).toEqual(["e"]);
  store.close();
});

it.each([
  ["forward", 30 * day],
  ["backward", -30 * day],
])("removes executions after a jump of the clock %s only an hour later, and sweeps on meanwhile", async (_, ms) => {
  jump(ms);
  await pass(hour);
  expect(swept.length).toBe(61);
  expect(swept.at(-1)).toBe(hour);
  await pass(2 * minute);
  expect(swept.at(-1)).toBe(ms + hour + 2 * minute);
});

it("removes nothing by a clock that was wrong for less than an hour", async () => {
  jump(30 * day);
  await pass(30 * minute);
  jump(-30 * day);
  await pass(2 * hour);
  expect(Math.max(...swept)).toBe(2.5 * hour);
  expect(swept.at(-1)).toBe(2.5 * hour);
});

it("removes executions behind one that was started by a clock that was ahead", () => {
  const store = new Store(":memory:", "normal");
  const add = (number: number, startAt: number, endAt: number): void => {
    const steps = [["a", "andThen", 0]] as const;
    const execution: Execution = { id: `e${number}`, workflowId: "w", input: "{}", context: {}, startAt, steps };
    store.insertExecution(number, execution, []);
    store.move(number, 0, { at: endAt, to: "completed", result: "1" });
  };
  add(1, start + 30 * day, start + 30 * day);
  add(2, start, start);
  const now = start + 8 * day;
  const expiry: Expiry = { now, ended: now - 7 * day, suspended: undefined, isDriven: () => false };
  let next: number | undefined = 0;
  while (next !== undefined) next = store.sweep(next, expiry, 1).next;
  expect([store.state("e1")?.status, store.state("e2")?.status]).toEqual(["completed", undefined]);
  store.close();
});
