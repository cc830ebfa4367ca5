import { defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { describeServer } from "../harness/server.ts";

const cycle: Record<string, unknown> = { a: 1 };
cycle["self"] = cycle;
class Money {
  amount = 1;
}
/** Values that a step must not return or throw, and the error that the author sees. */
const bad: Record<string, [make: () => unknown, error: string]> = {
  bigint: [() => ({ n: 1n }), "result.n is a BigInt: use a number or a string"],
  cycle: [() => cycle, "result.self is a circular reference"],
  date: [() => ({ when: new Date(0) }), "result.when is a Date: use a string"],
  nan: [() => [1, NaN], "result[1] is NaN: use null or a string"],
  infinity: [() => Infinity, "result is Infinity: use null or a string"],
  function: [() => ({ f: () => 1 }), "result.f is a function: use plain data"],
  symbol: [() => Symbol("x"), "result is a symbol: use a string"],
  map: [() => new Map(), "result is a Map: use a plain object"],
  instance: [() => ({ list: [new Money()] }), "result.list[0] is a Money: use a plain object"],
  hole: [() => [1, undefined], "result[1] is undefined: use null"],
  large: [() => "x".repeat(5_000_000), "result is 5000002 bytes as JSON: the limit is 4194304"],
  deep: [() => JSON.parse("[".repeat(600) + "]".repeat(600)), /is nested deeper than 500 levels$/.source],
  "thrown-string": [
    () => {
      throw "just text";
    },
    "just text",
  ],
  "thrown-null": [
    () => {
      throw null;
    },
    "null",
  ],
  "thrown-undefined": [
    () => {
      throw undefined;
    },
    "undefined",
  ],
  rejected: [() => Promise.reject(new Error("no")), "no"],
};
const workflows = Object.entries(bad).map(([id, [make]]) =>
  defineWorkflow({ id }).andThen({ id: "step", execute: () => make() as never }),
);
const asked = (id: string) =>
  [`/workflows/${id}/execute`, { input: {}, options: { executionId: `bad-${id}` } }] as const;

describeServer("a value that JSON would lose", { config: { workflows }, only: ["dev"] }, (server) => {
  it.each(Object.entries(bad))(
    "fails a step whose value JSON would lose, and names the place: %s",
    async (id, [, error]) => {
      const answer = await server.post(...asked(id));
      expect([answer.status, answer.body.error]).toEqual([500, "Failed to execute workflow"]);
      const state = (await server.get(`/workflows/${id}/executions/bad-${id}/state`)).body.data;
      expect(state).toMatchObject({
        status: "error",
        error: expect.stringMatching(id === "deep" ? new RegExp(error) : error.replace(/[[\].]/g, "\\$&")),
      });
    },
  );
});
