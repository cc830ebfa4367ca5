import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Arrivals } from "../../src/backends/restate/arrivals.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());

/** Drives appear after a time, one after the other. */
function appear(arrivals: Arrivals, times: number, afterMs: number): void {
  for (let index = 0; index < times; index++) {
    arrivals.expect(`e${index}`);
    vi.advanceTimersByTime(afterMs);
    arrivals.add(`e${index}`);
  }
}

it("a caller waits twice the usual time of a drive, and between 20 and 250 ms", () => {
  const arrivals = new Arrivals();
  expect(arrivals.waitMs).toBe(20);
  appear(arrivals, 100, 2);
  expect(arrivals.waitMs).toBe(20);
  appear(arrivals, 100, 50);
  expect(arrivals.waitMs).toBeCloseTo(100, 1);
  appear(arrivals, 100, 1_000);
  expect(arrivals.waitMs).toBe(250);
  appear(arrivals, 100, 2);
  expect(arrivals.waitMs).toBe(20);
});

it("a drive that is not expected, or whose caller has left, changes nothing", () => {
  const arrivals = new Arrivals();
  const leave = arrivals.expect("left");
  vi.advanceTimersByTime(1_000);
  leave();
  arrivals.add("left");
  arrivals.add("unknown");
  expect(arrivals.waitMs).toBe(20);
});
