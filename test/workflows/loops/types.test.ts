import { describe, expectTypeOf, it } from "vitest";
import * as v from "valibot";
import {
  andAll,
  andBranch,
  andDoUntil,
  andDoWhile,
  andForEach,
  andMap,
  andTap,
  andThen,
  andWorkflow,
  defineWorkflow,
  type ItemResult,
  type StepContext,
} from "agentserve";
import type { Workflow } from "../../../src/workflows/define.ts";

// Compiled by `tsc -p test`; what is marked @ts-expect-error must not compile.
interface Page {
  no: number;
}
const start = () =>
  defineWorkflow({
    id: "w",
    input: v.object({ pages: v.array(v.object({ no: v.number() })) }),
    resumeSchema: v.object({ ok: v.boolean() }),
  });
const list = () => start().andThen({ id: "list", execute: ({ data }) => data.pages });
const count = () => start().andThen({ id: "count", execute: ({ data }) => ({ n: data.pages.length }) });
type DataOf<W> = W extends Workflow<infer _S, infer _I, infer Data, infer _R, infer _Sus, infer _Out> ? Data : never;
const dataOf = <W>(_chain: () => W) => expectTypeOf<DataOf<W>>();
const takesText = andThen({ id: "text", execute: ({ data }: StepContext<string>) => data.length });
const one = andThen({ id: "one", execute: () => 1 });

describe("andForEach", () => {
  it("types the step of andForEach by the items, and the result as a list of its outputs", () => {
    dataOf(() =>
      list().andForEach({
        id: "each",
        concurrency: 5,
        step: andThen({
          id: "read",
          execute: async ({ data, input, resumeData }) => {
            expectTypeOf(data).toEqualTypeOf<Page>();
            expectTypeOf(input).toEqualTypeOf<{ pages: Page[] }>();
            expectTypeOf(resumeData).toEqualTypeOf<{ ok: boolean } | undefined>();
            return `${data.no}`;
          },
        }),
      }),
    ).toEqualTypeOf<string[]>();
    dataOf(() =>
      start()
        .andThen({ id: "frozen", execute: (): readonly [1, "a"] => [1, "a"] })
        .andForEach({ id: "each", step: andThen({ id: "s", execute: ({ data }) => ({ data }) }) }),
    ).toEqualTypeOf<{ data: 1 | "a" }[]>();
  });
  it("types the collected items of andForEach", () => {
    dataOf(() =>
      list().andForEach({
        id: "each",
        onError: "collect",
        step: andThen({ id: "s", execute: ({ data }) => data.no }),
      }),
    ).toEqualTypeOf<ItemResult<number>[]>();
    list()
      .andForEach({ id: "each", onError: "collect", step: one })
      .andThen({
        id: "next",
        execute: ({ data: [first] }) =>
          first?.status === "success"
            ? expectTypeOf(first.value).toEqualTypeOf<number>()
            : expectTypeOf(first?.error).toEqualTypeOf<string | undefined>(),
      });
  });
  it("checks the step of andForEach against the types of items and map", () => {
    dataOf(() =>
      start().andForEach({
        id: "each",
        items: async ({ data }) => data.pages,
        step: andThen({ id: "s", execute: ({ data }: StepContext<Page>) => data.no }),
      }),
    ).toEqualTypeOf<number[]>();
    dataOf(() =>
      start().andForEach({
        id: "each",
        items: ({ input }) => input.pages,
        map: ({ data }, item, index) => {
          expectTypeOf(data).toEqualTypeOf<{ pages: Page[] }>();
          expectTypeOf(item).toEqualTypeOf<Page>();
          expectTypeOf(index).toEqualTypeOf<number>();
          return `${item.no}`;
        },
        step: takesText,
      }),
    ).toEqualTypeOf<number[]>();
    dataOf(() =>
      list().andForEach({ id: "each", map: (_context, item) => `${item.no}`, step: takesText }),
    ).toEqualTypeOf<number[]>();
    dataOf(() =>
      start().andForEach({
        id: "each",
        items: () => [1, 2],
        step: andThen({ id: "s", inputSchema: v.number(), execute: ({ data }) => data + 1 }),
      }),
    ).toEqualTypeOf<number[]>();
  });
  it("leaves data from items unknown if nothing names its type", () => {
    start().andForEach({
      id: "each",
      items: ({ data }) => data.pages,
      step: andThen({ id: "s", execute: ({ data }) => expectTypeOf(data).toEqualTypeOf<unknown>() }),
    });
  });
  it("types andForEach with several steps as a list of the last outputs", () => {
    dataOf(() =>
      list().andForEach({
        id: "each",
        steps: [
          andThen({ id: "a", execute: ({ data }) => `${data.no}` }),
          takesText,
          andThen({ id: "b", execute: ({ data }: StepContext<number>) => ({ length: data }) }),
        ],
      }),
    ).toEqualTypeOf<{ length: number }[]>();
  });
  it("types andForEach inside other steps and inside itself", () => {
    const sub = defineWorkflow({ id: "sub", input: v.object({ no: v.number() }) }).andThen({
      id: "s",
      execute: ({ data }) => data.no > 1,
    });
    dataOf(() => list().andForEach({ id: "each", step: andWorkflow({ id: "sub", workflow: sub }) })).toEqualTypeOf<
      boolean[]
    >();
    dataOf(() =>
      list().andWhen({
        id: "when",
        condition: () => true,
        step: andForEach({ id: "each", step: andThen({ id: "s", execute: ({ data }) => data.no > 1 }) }),
      }),
    ).toEqualTypeOf<Page[] | boolean[]>();
    dataOf(() =>
      start()
        .andThen({ id: "rows", execute: () => [[1], [2, 3]] })
        .andForEach({
          id: "rows-each",
          step: andForEach({
            id: "cells-each",
            onError: "collect",
            step: andThen({ id: "s", execute: ({ data }) => `${data.toFixed()}` }),
          }),
        }),
    ).toEqualTypeOf<ItemResult<string>[][]>();
    dataOf(() =>
      list().andForEach({
        id: "each",
        step: andAll({
          id: "all",
          steps: [andThen({ id: "s", execute: ({ data }) => data.no }), andTap({ id: "t", execute: () => {} })],
        }),
      }),
    ).toEqualTypeOf<[number, Page][]>();
  });
  it("does not compile andForEach when types disagree", () => {
    () => {
      // @ts-expect-error data is not an array
      start().andForEach({ id: "each", step: one });
      // @ts-expect-error items are pages
      start().andForEach({ id: "each", items: ({ data }) => data.pages, step: takesText });
      // @ts-expect-error data has pages
      list().andForEach({ id: "each", step: takesText });
      // @ts-expect-error map makes numbers
      list().andForEach({ id: "each", map: (_context, item) => item.no, step: takesText });
      // @ts-expect-error the second step takes text
      list().andForEach({ id: "each", steps: [one, takesText] });
      // @ts-expect-error a step is not optional
      list().andForEach({ id: "each" });
      // @ts-expect-error there is at least one step
      list().andForEach({ id: "each", steps: [] });
      // @ts-expect-error either step or steps
      list().andForEach({ id: "each", step: one, steps: [one] });
      // @ts-expect-error a misspelt rule
      list().andForEach({ id: "each", onError: "ignore", step: one });
      // @ts-expect-error items make an array
      list().andForEach({ id: "each", items: () => 1, step: one });
      // @ts-expect-error items cannot suspend
      list().andForEach({ id: "each", items: ({ suspend }) => suspend(), step: one });
      // @ts-expect-error a loop is not retried as a whole
      list().andForEach({ id: "each", retry: { attempts: 2 }, step: one });
    };
  });
});

describe("andDoWhile and andDoUntil", () => {
  it("types the condition and the result of andDoWhile and andDoUntil by the step", () => {
    dataOf(() =>
      count().andDoWhile({
        id: "loop",
        condition: ({ data }) => expectTypeOf(data).toEqualTypeOf<{ n: number; text: string }>() && data.n < 3,
        step: andThen({ id: "s", execute: ({ data, input }) => ({ n: data.n + 1, text: `${input.pages.length}` }) }),
        maxIterations: 3,
      }),
    ).toEqualTypeOf<{ n: number; text: string }>();
    dataOf(() =>
      count().andDoUntil({
        id: "loop",
        steps: [
          andThen({ id: "a", execute: ({ data }) => data.n }),
          andThen({ id: "b", execute: ({ data }: StepContext<number>) => ({ n: data }) }),
        ],
        condition: async ({ data }) => data.n > 3,
      }),
    ).toEqualTypeOf<{ n: number }>();
  });
  it("types andDoWhile and andDoUntil inside other steps", () => {
    dataOf(() =>
      count().andAll({
        id: "all",
        steps: [
          andDoWhile({
            id: "loop",
            condition: ({ data }) => data.n < 3,
            step: andThen({ id: "s", execute: ({ data }) => ({ n: data.n + 1 }) }),
          }),
          andDoUntil({
            id: "until",
            condition: ({ data }) => data.n < 3,
            step: andThen({ id: "t", execute: ({ data }) => ({ n: data.n + 1 }) }),
          }),
        ],
      }),
    ).toEqualTypeOf<[{ n: number }, { n: number }]>();
  });
  it("does not compile andDoWhile and andDoUntil when types disagree", () => {
    const condition = () => true;
    () => {
      // @ts-expect-error the next iteration needs { n }
      count().andDoWhile({ id: "loop", condition, step: one });
      // @ts-expect-error the next iteration needs { n }
      count().andDoUntil({ id: "loop", condition, steps: [one, one] });
      // @ts-expect-error data has no m
      count().andDoWhile({ id: "loop", condition: ({ data }) => data.m, step: andTap({ id: "t", execute: () => {} }) });
      // @ts-expect-error a condition is true or false
      count().andDoWhile({ id: "loop", condition: () => 1, step: andTap({ id: "t", execute: () => {} }) });
      // @ts-expect-error a condition is not optional
      count().andDoWhile({ id: "loop", step: andTap({ id: "t", execute: () => {} }) });
      // @ts-expect-error a step is not optional
      count().andDoWhile({ id: "loop", condition });
    };
  });
});

describe("andBranch", () => {
  it("types andBranch as a list of its branches' outputs and null", () => {
    const create = () =>
      count().andBranch({
        id: "branch",
        branches: [
          { condition: ({ data }) => data.n > 1, step: andThen({ id: "a", execute: ({ data }) => data.n }) },
          { condition: async () => false, step: andThen({ id: "b", execute: () => "b" }) },
        ],
      });
    dataOf(create).toEqualTypeOf<(number | string | null)[]>();
    dataOf(() =>
      count().andWhen({
        id: "when",
        condition: () => true,
        step: andBranch({
          id: "branch",
          branches: [{ condition: ({ data }) => data.n > 1, step: andTap({ id: "a", execute: ({ data }) => data.n }) }],
        }),
      }),
    ).toEqualTypeOf<{ n: number } | ({ n: number } | null)[]>();
  });
  it("does not compile andBranch when types disagree", () => {
    const condition = () => true;
    () => {
      // @ts-expect-error the step takes text
      count().andBranch({ id: "branch", branches: [{ condition, step: takesText }] });
      // @ts-expect-error data has no m
      count().andBranch({ id: "branch", branches: [{ condition: ({ data }) => data.m, step: one }] });
      // @ts-expect-error a branch has a step
      count().andBranch({ id: "branch", branches: [{ condition }] });
      // @ts-expect-error branches are not optional
      count().andBranch({ id: "branch" });
    };
  });
});

describe("andMap", () => {
  it("infers values and functions of andMap, and leaves other sources unknown", () => {
    dataOf(() =>
      count().andMap({
        id: "map",
        map: {
          value: { source: "value", value: { list: [1, "x"] } },
          number: { source: "value", value: 3 },
          fn: { source: "fn", fn: async ({ data, input }) => data.n + input.pages.length },
          data: { source: "data", path: "n" },
          input: { source: "input" },
          step: { source: "step", stepId: "count" },
          context: { source: "context", key: "tenant" },
        },
      }),
    ).toEqualTypeOf<{
      value: { list: (number | string)[] };
      number: number;
      fn: number;
      data: unknown;
      input: unknown;
      step: unknown;
      context: unknown;
    }>();
  });
  it("types andMap by its output schema, and inside other steps", () => {
    dataOf(() =>
      count().andMap({
        id: "map",
        outputSchema: v.object({ n: v.pipe(v.number(), v.transform(String)) }),
        map: { n: { source: "data", path: "n" } },
      }),
    ).toEqualTypeOf<{ n: string }>();
    dataOf(() =>
      count().andWhen({
        id: "when",
        condition: () => true,
        step: andMap({ id: "map", map: { twice: { source: "fn", fn: ({ data }) => data.n * 2 } } }),
      }),
    ).toEqualTypeOf<{ n: number } | { twice: number }>();
  });
  it("does not compile andMap when types disagree", () => {
    () => {
      // @ts-expect-error no such source
      count().andMap({ id: "map", map: { a: { source: "nowhere" } } });
      // @ts-expect-error a step has an id
      count().andMap({ id: "map", map: { a: { source: "step" } } });
      // @ts-expect-error data has no m
      count().andMap({ id: "map", map: { a: { source: "fn", fn: ({ data }) => data.m } } });
      // @ts-expect-error a function cannot suspend
      count().andMap({ id: "map", map: { a: { source: "fn", fn: ({ suspend }) => suspend() } } });
      // @ts-expect-error map is not optional
      count().andMap({ id: "map" });
    };
  });
});
