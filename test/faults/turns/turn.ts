// oxlint-disable vitest/no-standalone-expect -- called inside of tests
import { expect } from "vitest";
import { callOf, plan, toolNames, type Request } from "./model.ts";

/** A run of a tool, as the tool has written it before anything else. */
export interface ToolRun {
  readonly turn: string;
  readonly tool: string;
  readonly toolCallId: string;
  readonly idempotencyKey: string;
  /** The result of the tool. It differs between runs. */
  readonly value: string;
  readonly life: number;
}

/** All that is known of a turn that has ended. */
export interface TurnHistory {
  readonly id: string;
  readonly answer: string;
  readonly requests: readonly Request[];
  readonly runs: readonly ToolRun[];
  /** The life at whose end the file had a tool call for the first time, by the id of the call. */
  readonly recordedIn: ReadonlyMap<string, number>;
}

/**
 * Checks a turn that was interrupted by crashes. The rules:
 *
 * - A model call is asked once in a life at the most. A tool starts only after the model call that asked for it is
 *   recorded: once one of its tools has started, that model call is not asked again.
 * - A tool call runs once in a life at the most, always with the same key, which no other call has. Once it is recorded it
 *   does not run again. It is recorded at the latest when the model is shown its result.
 * - The model is shown one result of a tool call, in every life.
 * - The answer has the results of all tools, one of each.
 */
export function checkTurn({ id, answer, requests, runs, recordedIn }: TurnHistory): void {
  for (const call of [...plan.keys(), plan.length]) {
    const asked = requests.filter((one) => one.call === call).map(({ life }) => life);
    expect(asked.length, `${id}: model call ${call} was never asked`).toBeGreaterThan(0);
    expect(asked, `${id}: model call ${call} twice in a life`).toEqual([...new Set(asked)]);
    const started = runs.filter(({ toolCallId }) => callOf(toolCallId) === call).map(({ life }) => life);
    const recorded = Math.min(Infinity, ...started);
    expect(
      asked.filter((life) => life > recorded),
      `${id}: model call ${call} was recorded`,
    ).toEqual([]);
  }
  const shown = new Map<string, string>();
  for (const { results } of requests)
    for (const [toolCallId, value] of results) {
      expect(shown.get(toolCallId) ?? value, `${id}: the result of ${toolCallId} has changed`).toBe(value);
      shown.set(toolCallId, value);
    }
  for (const [toolCallId, own] of Map.groupBy(runs, (run) => run.toolCallId)) {
    const ran = own.map(({ life }) => life);
    expect(ran, `${id}: ${toolCallId} twice in a life`).toEqual([...new Set(ran)]);
    const seen = requests.filter(({ results }) => results.has(toolCallId)).map(({ life }) => life);
    const recorded = Math.min(recordedIn.get(toolCallId) ?? Infinity, ...seen);
    expect(
      ran.filter((life) => life > recorded),
      `${id}: ${toolCallId} was recorded`,
    ).toEqual([]);
    expect(new Set(own.map(({ idempotencyKey }) => idempotencyKey)).size, `${id}: keys of ${toolCallId}`).toBe(1);
    // What is shown is the result of the last run: it alone has ended.
    expect(shown.get(toolCallId), `${id}: ${toolCallId}`).toBe(own.at(-1)!.value);
  }
  const keys = new Set(runs.map(({ idempotencyKey }) => idempotencyKey));
  const calls = new Set(runs.map(({ toolCallId }) => toolCallId));
  expect(keys.size, `${id}: keys`).toBe(calls.size);
  expect(calls.size, `${id}: tool calls`).toBe(toolNames.length);
  const results = JSON.parse(answer) as string[];
  expect(results.map((value) => value.split(" ")[0]).toSorted(), id).toEqual(toolNames.toSorted());
  expect(results, id).toEqual([...shown.values()].toSorted());
}
