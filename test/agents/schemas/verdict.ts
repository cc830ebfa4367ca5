import { expect } from "vitest";
import { parseEvents } from "../../harness/client.ts";
import { patienceMs } from "../../harness/patience.ts";

export type Json = Record<string, unknown>;
export const endpoints = ["object", "stream-object"] as const;

export interface Verdict {
  /** As `object` would put it: of a stream, what its last event means. */
  readonly status: number;
  readonly message: string;
  readonly value: unknown;
  readonly ms: number;
}

export interface Attack {
  readonly name: string;
  /** As JSON text where it is no value that `JSON.stringify` would make. */
  readonly schema: unknown;
  readonly says: unknown;
  readonly verdicts: readonly number[];
  readonly agent?: string;
}
export const attack = (name: string, schema: unknown, says: unknown, ...verdicts: number[]): Attack => ({
  name,
  schema,
  says,
  verdicts: verdicts.length > 0 ? verdicts : [200, 400, 502],
});
export const object = (properties: Json, more: Json = {}): Json => ({ type: "object", properties, ...more });

/**
 * Starting a process for the check may take longer than a request waits for it. On a busy machine a check may also get no
 * processor time within its limit: `isDone` says whether a verdict is one about the schema.
 */
export async function untilChecked<T extends { readonly status: number }>(
  send: () => Promise<T>,
  isDone: (verdict: T) => boolean = () => true,
): Promise<T> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const verdict = await send();
    if ((verdict.status !== 503 && isDone(verdict)) || performance.now() > deadline) return verdict;
  }
}

export function ofBody(status: number, text: string): Omit<Verdict, "ms"> {
  const { data, error = "" } = JSON.parse(text);
  return { status, message: error, value: data };
}

export function ofStream(text: string): Omit<Verdict, "ms"> {
  const events = parseEvents(text);
  const last = events.pop();
  expect(events.filter(({ type }) => type !== "partial-object")).toEqual([]);
  if (last?.type === "object") return { status: 200, message: "", value: last.object };
  const message = last?.type === "error" ? String(last.error) : "no last event";
  const [status = 500] = [400, 502, 503].filter((code) => expected[code]!.test(message));
  return { status, message, value: undefined };
}

const expected: Record<number, RegExp> = {
  200: /^$/,
  400: /^Invalid (schema|request body|JSON body): /,
  502: /^Model output does not match schema: /,
  503: /^Too many/,
};

export function checkVerdict(
  { name, verdicts }: Attack,
  endpoint: string,
  { status, message }: Verdict,
  also: number[] = [],
): void {
  const what = `${name} (${endpoint}): ${status} ${message.slice(0, 200)}`;
  expect([...verdicts, ...also], what).toContain(status);
  expect(message, what).toMatch(expected[status]!);
  expect(message.length, what).toBeLessThan(1_000);
}
