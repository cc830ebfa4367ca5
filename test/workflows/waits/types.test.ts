import { describe, expectTypeOf, it } from "vitest";
import * as v from "valibot";
import { andForEach, andSleep, andSleepUntil, andThen, andWaitFor, defineWorkflow, type StepContext } from "agentserve";
import type { Workflow } from "../../../src/workflows/define.ts";

// Compiled by `tsc -p test`; what is marked @ts-expect-error must not compile.
const start = () => defineWorkflow({ id: "w", input: v.object({ due: v.string(), ms: v.number() }) });
const paid = v.object({ amount: v.pipe(v.string(), v.transform(Number)) });
type DataOf<W> = W extends Workflow<infer _S, infer _I, infer Data, infer _R, infer _Sus, infer _Out> ? Data : never;
const dataOf = <W>(_chain: () => W) => expectTypeOf<DataOf<W>>();
type Start = { due: string; ms: number };

describe("andSleep and andSleepUntil", () => {
  it("types andSleep and andSleepUntil as the data before them, with the context in functions", () => {
    dataOf(() =>
      start()
        .andSleep({ id: "a", duration: ({ data, input }) => data.ms + input.ms })
        .andSleep({ id: "b", duration: async ({ data }) => `${data.ms}s`, skippable: true })
        .andSleep({ id: "c", duration: "2d" })
        .andSleepUntil({ id: "d", date: ({ data }) => data.due })
        .andSleepUntil({ id: "e", date: async ({ input }) => new Date(input.due) })
        .andSleepUntil({ id: "f", date: new Date(0) }),
    ).toEqualTypeOf<Start>();
  });
  it("types data of andSleep and andSleepUntil inside other steps", () => {
    dataOf(() =>
      start().andAll({
        id: "all",
        steps: [
          andSleep({ id: "a", duration: ({ data }) => data.ms }),
          andSleepUntil({ id: "b", date: ({ data }) => data.due }),
        ],
      }),
    ).toEqualTypeOf<[Start, Start]>();
    dataOf(() =>
      start()
        .andThen({ id: "list", execute: () => [{ at: "2030-01-01" }] })
        .andForEach({ id: "each", step: andSleepUntil({ id: "s", date: ({ data }) => data.at }) }),
    ).toEqualTypeOf<{ at: string }[]>();
  });
  it("does not compile andSleep and andSleepUntil when types disagree", () => {
    () => {
      // @ts-expect-error a duration is not optional
      start().andSleep({ id: "s" });
      // @ts-expect-error a duration is not a date
      start().andSleep({ id: "s", duration: new Date() });
      // @ts-expect-error data has no seconds
      start().andSleep({ id: "s", duration: ({ data }) => data.seconds });
      // @ts-expect-error a duration is a number or a text
      start().andSleep({ id: "s", duration: () => true });
      // @ts-expect-error the function cannot suspend
      start().andSleep({ id: "s", duration: ({ suspend }) => suspend() });
      // @ts-expect-error a sleep is not retried
      start().andSleep({ id: "s", duration: 1, retry: { attempts: 2 } });
      // @ts-expect-error a date is not optional
      start().andSleepUntil({ id: "s" });
      // @ts-expect-error a date is not a number
      start().andSleepUntil({ id: "s", date: 1 });
      // @ts-expect-error a date is not a number
      start().andSleepUntil({ id: "s", date: ({ data }) => data.ms });
      const awake = start().andSleep({ id: "s", duration: 1 });
      // @ts-expect-error data is still not an array
      awake.andForEach({ id: "each", step: andThen({ id: "t", execute: () => 1 }) });
    };
  });
});

describe("andWaitFor", () => {
  it("types andWaitFor by the schema of the event, and null if it has a time-out", () => {
    dataOf(() => start().andWaitFor({ id: "s", event: "paid" })).toEqualTypeOf<unknown>();
    dataOf(() => start().andWaitFor({ id: "s", event: "paid", schema: paid })).toEqualTypeOf<{ amount: number }>();
    dataOf(() =>
      start().andWaitFor({ id: "s", event: "paid", schema: paid, timeout: "2d", key: ({ data }) => data.due }),
    ).toEqualTypeOf<{ amount: number } | null>();
    dataOf(() =>
      start().andWaitFor({ id: "s", event: "paid", schema: paid, timeout: 5, since: "always", from: "code" }),
    ).toEqualTypeOf<{ amount: number } | null>();
  });
  it("types andWaitFor inside other steps", () => {
    dataOf(() =>
      start().andWhen({
        id: "when",
        condition: ({ data }) => data.ms > 0,
        step: andWaitFor({ id: "s", event: "paid", schema: paid, key: async ({ input }) => input.due }),
      }),
    ).toEqualTypeOf<Start | { amount: number }>();
    dataOf(() =>
      start()
        .andThen({ id: "ids", execute: () => ["a"] })
        .andForEach({
          id: "each",
          step: andWaitFor({ id: "s", event: "paid", key: ({ data }) => data, schema: paid, timeout: "1d" }),
        }),
    ).toEqualTypeOf<({ amount: number } | null)[]>();
  });
  it("does not compile andWaitFor when types disagree", () => {
    () => {
      // @ts-expect-error an event has a name
      start().andWaitFor({ id: "s" });
      // @ts-expect-error a key is a text
      start().andWaitFor({ id: "s", event: "paid", key: 1 });
      // @ts-expect-error a key is a text
      start().andWaitFor({ id: "s", event: "paid", key: ({ data }) => data.ms });
      // @ts-expect-error a time-out is a duration
      start().andWaitFor({ id: "s", event: "paid", timeout: new Date() });
      // @ts-expect-error no such age
      start().andWaitFor({ id: "s", event: "paid", since: "never" });
      // @ts-expect-error no such sender
      start().andWaitFor({ id: "s", event: "paid", from: "nobody" });
      // @ts-expect-error a schema is not a function
      start().andWaitFor({ id: "s", event: "paid", schema: () => true });
      start()
        .andWaitFor({ id: "s", event: "paid", schema: paid, timeout: "1d" })
        // @ts-expect-error data may be null
        .andThen({ id: "t", execute: ({ data }) => data.amount });
      const takesText = andThen({ id: "t", execute: ({ data }: StepContext<string>) => data });
      // @ts-expect-error the step takes text
      andForEach({ id: "each", steps: [andWaitFor({ id: "s", event: "paid", schema: paid }), takesText] });
    };
  });
});

describe("suspend with a deadline, and timedOut", () => {
  it("types the timeout of suspend, and timedOut in andThen", () => {
    start().andThen({
      id: "ask",
      execute: ({ suspend, timedOut }) => {
        expectTypeOf(timedOut).toEqualTypeOf<boolean>();
        return timedOut ? "late" : suspend("?", undefined, { timeout: new Date(0) });
      },
    });
    () => {
      start().andThen({
        id: "ask",
        // @ts-expect-error a time-out is a duration or a date
        execute: ({ suspend }) => suspend("?", undefined, { timeout: true }),
      });
    };
  });
});
