import { setTimeout as sleep } from "node:timers/promises";
import { vi } from "vitest";
import { patienceMs } from "./patience.ts";

/** Settles as the promise does, or rejects once that has taken longer than any machine needs. */
export async function within<T>(promise: Promise<T>, what: string | (() => string) = "an answer"): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(toMessage(what))), patienceMs);
  return Promise.race([promise, late.promise]).finally(() => clearTimeout(timer));
}

/** Resolves once this holds. Unlike `expect.poll`, it works in tests that run beside each other. */
export async function until(holds: () => boolean | Promise<boolean>, what: string | (() => string)): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(toMessage(what));
    await sleep(5);
  }
}

/** Resolves once a number has fallen to zero. Fails when it stays the same for longer than any machine needs. */
export async function untilNone(count: () => number, what: string): Promise<void> {
  for (let left = count(); left > 0; left = count()) await until(() => count() !== left, `the end of ${left} ${what}`);
}

const toMessage = (what: string | (() => string)): string =>
  `waited ${patienceMs} ms for ${typeof what === "string" ? what : what()}`;

/** Resolves to the value of the first call that does not throw. */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(check, { timeout: patienceMs, interval: 10 });

/** The value of a promise, and the time until it was there. */
export async function timed<T>(act: () => Promise<T>): Promise<{ value: T; ms: number }> {
  const began = performance.now();
  const value = await act();
  return { value, ms: performance.now() - began };
}

/** Works on a list, so many at a time. */
export async function together<T>(count: number, list: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const rest = list.values();
  const worker = async (): Promise<void> => {
    for (const one of rest) await work(one);
  };
  await Promise.all(Array.from({ length: count }, worker));
}
