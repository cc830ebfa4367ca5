import { quote } from "../../core/quote.ts";

type Rule = readonly [expected: string, isValid: (value: number) => boolean];

const isDuration = (value: number): boolean => Number.isFinite(value) && value >= 0;
const rules: Record<string, Rule> = {
  attempts: [
    "a whole number from 1, or Infinity",
    (value) => (Number.isInteger(value) || value === Infinity) && value >= 1,
  ],
  delay: ["milliseconds from 0", isDuration],
  backoff: ["a number from 0", isDuration],
  maxDelay: ["milliseconds from 0", isDuration],
  jitter: ["a number from 0 to 1", (value) => value >= 0 && value <= 1],
};

/** Throws if the `retry` of a step or a workflow has a wrong value. */
export function checkRetry(options: object, what: string): void {
  const retry = "retry" in options ? options.retry : undefined;
  if (retry === undefined) return;
  if (typeof retry !== "object" || retry === null || Array.isArray(retry))
    throw new TypeError(`${what}: retry: expected an object such as { attempts: 3 }, found ${quote(retry)}`);
  for (const [name, [expected, isValid]] of Object.entries(rules)) {
    const value = (retry as Record<string, unknown>)[name];
    if (value === undefined && name !== "attempts") continue;
    if (typeof value === "number" && isValid(value)) continue;
    throw new TypeError(`${what}: retry.${name}: expected ${expected}, found ${quote(value)}`);
  }
}
