import { expect, it, vi } from "vitest";
import { within } from "../../src/core/clock.ts";

it("within gives the result of a promise that is in time, and stops its timer", async () => {
  vi.useFakeTimers();
  try {
    await expect(within(10, Promise.resolve(1), { onLate: () => 2 })).resolves.toBe(1);
    await expect(within(10, Promise.reject(new Error("no")), { onLate: () => 2 })).rejects.toThrow("no");
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

it("within gives what onLate returns or throws for a promise that is late", async () => {
  const never = new Promise<never>(() => {});
  await expect(within(1, never, { onLate: () => 2 })).resolves.toBe(2);
  const refuse = () => {
    throw new Error("late");
  };
  await expect(within(1, never, { onLate: refuse })).rejects.toThrow("late");
});
