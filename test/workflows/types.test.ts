import { describe, expectTypeOf, it } from "vitest";
import * as v from "valibot";
import { type } from "arktype";
import { z } from "zod";
import {
  andAgent,
  andAll,
  andRace,
  andTap,
  andThen,
  andWhen,
  andWorkflow,
  AgentError,
  defineWorkflow,
  type AnyInput,
  ServeError,
  type Retry,
  type StepContext,
} from "agentserve";
import type { Agent } from "../../src/engine/definition/reference.ts";
import type { Workflow } from "../../src/workflows/define.ts";

// Compiled by `tsc -p test`; what is marked @ts-expect-error must not compile.
declare const agent: Agent;
const start = () =>
  defineWorkflow({
    id: "w",
    input: v.object({ n: v.number() }),
    suspendSchema: v.object({ question: v.string() }),
    resumeSchema: v.object({ ok: v.boolean() }),
  });
type DataOf<W> = W extends Workflow<infer _S, infer _I, infer Data, infer _R, infer _Sus, infer _Out> ? Data : never;
const dataOf = <W>(_chain: () => W) => expectTypeOf<DataOf<W>>();

describe("defineWorkflow", () => {
  it("types the data of the first step by the input schema", () => {
    const schemas = {
      valibot: v.object({ n: v.pipe(v.string(), v.transform(Number)) }),
      zod: z.object({ n: z.number() }),
      arktype: type({ n: "number" }),
    };
    dataOf(() => defineWorkflow({ id: "a", input: schemas.valibot })).toEqualTypeOf<{ n: number }>();
    dataOf(() => defineWorkflow({ id: "a", input: schemas.zod })).toEqualTypeOf<{ n: number }>();
    dataOf(() => defineWorkflow({ id: "a", input: schemas.arktype })).toEqualTypeOf<{ n: number }>();
    () =>
      defineWorkflow({ id: "a" }).andThen({
        id: "s",
        execute: ({ data }) => expectTypeOf(data).toEqualTypeOf<Record<string, unknown>>(),
      });
  });
});

describe("concurrency", () => {
  it("types the concurrency key by the input schema", () => {
    const input = v.object({ n: v.pipe(v.string(), v.transform(Number)) });
    () =>
      defineWorkflow({
        id: "a",
        input,
        concurrency: {
          limit: 1,
          key: (call) => {
            expectTypeOf(call.input).toEqualTypeOf<{ n: number }>();
            expectTypeOf(call.userId).toEqualTypeOf<string | undefined>();
            expectTypeOf(call.conversationId).toEqualTypeOf<string | undefined>();
            expectTypeOf(call.context).toEqualTypeOf<ReadonlyMap<string, unknown>>();
            return String(call.input.n);
          },
        },
      }).andThen({ id: "s", execute: ({ data }) => expectTypeOf(data).toEqualTypeOf<{ n: number }>() });
    () =>
      defineWorkflow({
        id: "a",
        concurrency: { limit: 1, key: (call) => String(expectTypeOf(call.input).toEqualTypeOf<AnyInput>()) },
      });
    // @ts-expect-error the input has no such field
    () => defineWorkflow({ id: "a", input, concurrency: { limit: 1, key: (call) => call.input.tenant } });
    // @ts-expect-error a key is a text
    () => defineWorkflow({ id: "a", input, concurrency: { limit: 1, key: (call) => call.input.n } });
    // @ts-expect-error the limit is missing
    () => defineWorkflow({ id: "a", input, concurrency: { key: () => "k" } });
  });
});

describe("the id of a workflow", () => {
  it("keeps the id of a workflow as a literal through the whole chain", () => {
    const create = () =>
      defineWorkflow({ id: "approval", input: v.object({ n: v.number() }) })
        .andThen({ id: "then", execute: ({ data }) => data.n })
        .andWhen({ id: "when", condition: () => true, step: andThen({ id: "inner", execute: () => 1 }) })
        .andTap({ id: "tap", execute: () => {} })
        .andAll({ id: "all", steps: [andThen({ id: "a", execute: () => 1 })] })
        .andRace({ id: "race", steps: [andThen({ id: "b", execute: () => 1 })] })
        .andAgent({ id: "agent", agent, prompt: "Hello" });
    expectTypeOf<ReturnType<typeof create>["id"]>().toEqualTypeOf<"approval">();
    // @ts-expect-error the id is another one
    () => create().id === "other";
    const nested = () =>
      defineWorkflow({ id: "outer" }).andWorkflow({ id: "sub", workflow: defineWorkflow({ id: "sub" }) });
    expectTypeOf<ReturnType<typeof nested>["id"]>().toEqualTypeOf<"outer">();
  });

  it("types a workflow id that is known only at run time as a string", () => {
    const create = (id: string) => defineWorkflow({ id }).andThen({ id: "s", execute: () => 1 });
    expectTypeOf<ReturnType<typeof create>["id"]>().toEqualTypeOf<string>();
  });
});

describe("andThen", () => {
  it("types the next data by what andThen returns, awaited and without suspensions", () => {
    dataOf(() => start().andThen({ id: "s", execute: () => 1 })).toEqualTypeOf<number>();
    dataOf(() =>
      start().andThen({ id: "s", execute: async ({ data }) => ({ a: data.n > 1 ? "x" : "y" }) }),
    ).toEqualTypeOf<{ a: string }>();
    dataOf(() =>
      start().andThen({ id: "s", execute: async ({ data, suspend }) => (data.n > 1 ? suspend() : "x") }),
    ).toEqualTypeOf<string>();
    dataOf(() => start().andThen({ id: "s", execute: () => undefined })).toEqualTypeOf<undefined>();
  });
  it("types input, resumeData and suspend of andThen by the schemas of the workflow", () => {
    start()
      .andThen({ id: "a", execute: () => "text" })
      .andThen({
        id: "b",
        execute: ({ data, input, resumeData, suspend, getStepData, context }) => {
          expectTypeOf(data).toEqualTypeOf<string>();
          expectTypeOf(input).toEqualTypeOf<{ n: number }>();
          expectTypeOf(resumeData).toEqualTypeOf<{ ok: boolean } | undefined>();
          expectTypeOf(suspend).parameter(1).toEqualTypeOf<{ question: string } | undefined>();
          expectTypeOf(suspend).returns.toEqualTypeOf<Promise<never>>();
          expectTypeOf(getStepData("a")).toEqualTypeOf<unknown>();
          expectTypeOf(context).toEqualTypeOf<ReadonlyMap<string, unknown>>();
        },
      });
  });
  it("types andThen by its own schemas before those of the workflow", () => {
    const own = start().andThen({
      id: "b",
      inputSchema: v.object({ n: v.number() }),
      outputSchema: v.object({
        at: v.pipe(
          v.string(),
          v.transform((text) => text.length),
        ),
      }),
      suspendSchema: v.object({ why: v.string() }),
      resumeSchema: v.object({ code: v.number() }),
      execute: ({ resumeData, suspend }) => {
        expectTypeOf(resumeData).toEqualTypeOf<{ code: number } | undefined>();
        expectTypeOf(suspend).parameter(1).toEqualTypeOf<{ why: string } | undefined>();
        return { at: "now" };
      },
    });
    expectTypeOf<DataOf<typeof own>>().toEqualTypeOf<{ at: number }>();
  });
  it("narrows unknown data by the inputSchema of andThen", () => {
    const open = start().andThen({ id: "a", execute: () => JSON.parse("{}") as unknown });
    dataOf(() =>
      open.andThen({ id: "b", inputSchema: v.object({ n: v.number() }), execute: ({ data }) => data.n }),
    ).toEqualTypeOf<number>();
  });
  it("types andThen that returns a value or a promise", () => {
    dataOf(() =>
      start().andThen({ id: "s", execute: ({ data }) => (data.n > 1 ? Promise.resolve({ a: 1 }) : { b: 2 }) }),
    ).toEqualTypeOf<{ a: number } | { b: number }>();
  });
  it("does not compile andThen when types disagree", () => {
    () => {
      // @ts-expect-error data has no m
      start().andThen({ id: "s", execute: ({ data }) => data.m });
      // @ts-expect-error the output schema wants a string
      start().andThen({ id: "s", outputSchema: v.string(), execute: () => 1 });
      // @ts-expect-error the step before makes no string
      start().andThen({ id: "s", inputSchema: v.string(), execute: () => 1 });
      // @ts-expect-error suspend data has a question
      start().andThen({ id: "s", execute: ({ suspend }) => suspend("why", { answer: 1 }) });
      // @ts-expect-error an id is not optional
      start().andThen({ execute: () => 1 });
      // @ts-expect-error retry needs attempts
      start().andThen({ id: "s", retry: { delay: 1 }, execute: () => 1 });
      // @ts-expect-error jitter is a number
      start().andThen({ id: "s", retry: { attempts: 2, jitter: true }, execute: () => 1 });
      // @ts-expect-error a misspelt option
      start().andThen({ id: "s", retry: { attempts: 2, maxdelay: 1 }, execute: () => 1 });
    };
  });
});

describe("errors", () => {
  it("types the status, message and retry rule of errors", () => {
    expectTypeOf(new ServeError(404, "no").retry).toEqualTypeOf<boolean>();
    expectTypeOf(new AgentError(502, "no", { retry: false })).toExtend<ServeError>();
    () => {
      // @ts-expect-error retry is a boolean
      void new ServeError(404, "no", { retry: 3 });
      // @ts-expect-error the fields of a body are those of the server
      void new ServeError(404, "no", { fields: { executionId: "e" } });
    };
    const retry: Retry = { attempts: 5, delay: 1_000, backoff: 2, maxDelay: 60_000, jitter: 0.5 };
    expectTypeOf(retry.jitter).toEqualTypeOf<number | undefined>();
  });
});

describe("andWhen", () => {
  it("types andWhen as the output of its step, or as the data before", () => {
    dataOf(() =>
      start().andWhen({
        id: "w",
        condition: ({ data }) => data.n > 1,
        step: andThen({ id: "s", execute: ({ data }) => String(data.n) }),
      }),
    ).toEqualTypeOf<{ n: number } | string>();
  });
  it("does not compile andWhen when types disagree", () => {
    const takesText = andThen({ id: "s", execute: ({ data }: StepContext<string>) => data.length });
    () => {
      // @ts-expect-error the step takes text
      start().andWhen({ id: "w", condition: () => true, step: takesText });
      // @ts-expect-error a condition is true or false
      start().andWhen({ id: "w", condition: () => "yes", step: andThen({ id: "s", execute: () => 1 }) });
      // @ts-expect-error a condition cannot suspend
      start().andWhen({ id: "w", condition: ({ suspend }) => suspend(), step: andThen({ id: "s", execute: () => 1 }) });
    };
  });
});

describe("andAll", () => {
  it("types andAll as the list of its branches' outputs, in order", () => {
    dataOf(() =>
      start().andAll({
        id: "all",
        steps: [
          andThen({ id: "a", execute: ({ data }) => data.n }),
          andThen({ id: "b", execute: async ({ data, resumeData }) => ({ text: String(data.n), ok: resumeData?.ok }) }),
          andTap({ id: "c", execute: ({ data }) => console.log(data.n) }),
        ],
      }),
    ).toEqualTypeOf<[number, { text: string; ok: boolean | undefined }, { n: number }]>();
  });
  it("does not compile andAll with a branch that takes other data", () => {
    const takesText = andThen({ id: "s", execute: ({ data }: StepContext<string>) => data.length });
    () => {
      // @ts-expect-error the branch takes text
      start().andAll({ id: "all", steps: [takesText] });
      // @ts-expect-error data has no m
      start().andAll({ id: "all", steps: [andThen({ id: "a", execute: ({ data }) => data.m })] });
    };
  });
});

describe("andRace", () => {
  it("types andRace as the output of one of its branches", () => {
    dataOf(() =>
      start().andRace({
        id: "race",
        steps: [andThen({ id: "a", execute: ({ data }) => data.n }), andThen({ id: "b", execute: async () => "x" })],
      }),
    ).toEqualTypeOf<number | string>();
  });
});

describe("andTap", () => {
  it("types andTap as the data before it, without suspend", () => {
    dataOf(() => start().andTap({ id: "t", execute: ({ data }) => data.n })).toEqualTypeOf<{ n: number }>();
    () => {
      // @ts-expect-error a tap cannot suspend
      start().andTap({ id: "t", execute: ({ suspend }) => suspend() });
      // @ts-expect-error the step before makes no string
      start().andTap({ id: "t", inputSchema: v.string(), execute: () => 1 });
    };
  });
});

describe("andAgent", () => {
  it("types andAgent as text, an object by schema, or the result of map", () => {
    dataOf(() => start().andAgent({ id: "g", agent, prompt: "hello" })).toEqualTypeOf<string>();
    dataOf(() =>
      start().andAgent({ id: "g", agent, prompt: ({ data }) => `${data.n}`, schema: z.object({ a: z.string() }) }),
    ).toEqualTypeOf<{ a: string }>();
    dataOf(() =>
      start().andAgent({
        id: "g",
        agent,
        prompt: [{ role: "user", content: "x" }],
        map: (answer, { data }) => ({ length: answer.length, n: data.n }),
      }),
    ).toEqualTypeOf<{ length: number; n: number }>();
    dataOf(() =>
      start().andAgent({ id: "g", agent, prompt: "x", schema: v.object({ a: v.number() }), map: async ({ a }) => a }),
    ).toEqualTypeOf<number>();
    () => {
      // @ts-expect-error an agent is not optional
      start().andAgent({ id: "g", prompt: "hello" });
      // @ts-expect-error a prompt is text or messages
      start().andAgent({ id: "g", agent, prompt: () => 1 });
    };
  });
});

describe("andWorkflow", () => {
  const sub = defineWorkflow({ id: "sub", input: v.object({ n: v.number() }) }).andThen({
    id: "s",
    execute: ({ data }) => data.n > 1,
  });
  it("types andWorkflow as the result of the other workflow, or of map", () => {
    dataOf(() => start().andWorkflow({ id: "x", workflow: sub })).toEqualTypeOf<boolean>();
    dataOf(() =>
      start().andWorkflow({ id: "x", workflow: sub, map: (result, { data }) => ({ result, n: data.n }) }),
    ).toEqualTypeOf<{ result: boolean; n: number }>();
  });
  it("types andWorkflow by the result schema of the other workflow", () => {
    const checked = defineWorkflow({
      id: "c",
      result: v.pipe(
        v.string(),
        v.transform((text) => text.length),
      ),
    }).andThen({ id: "s", execute: () => "x" });
    dataOf(() => defineWorkflow({ id: "w" }).andWorkflow({ id: "x", workflow: checked })).toEqualTypeOf<number>();
  });
  it("accepts any object for a sub-workflow without an input schema", () => {
    interface Order {
      id: string;
    }
    const open = defineWorkflow({ id: "open" }).andThen({ id: "s", execute: () => 1 });
    dataOf(() =>
      start()
        .andThen({ id: "o", execute: (): Order => ({ id: "1" }) })
        .andWorkflow({ id: "x", workflow: open }),
    ).toEqualTypeOf<number>();
  });
  it("does not compile a sub-workflow that takes other data", () => {
    const text = start().andThen({ id: "t", execute: () => "text" });
    () => {
      // @ts-expect-error the sub-workflow takes { n }
      text.andWorkflow({ id: "x", workflow: sub });
    };
  });
});

describe("nested steps", () => {
  it("types data, input and resumeData of nested steps at any depth", () => {
    const sub = defineWorkflow({ id: "sub", input: v.object({ n: v.number() }) }).andThen({
      id: "s",
      execute: () => 1n,
    });
    dataOf(() =>
      start().andWhen({
        id: "w",
        condition: ({ data }) => data.n > 1,
        step: andAll({
          id: "all",
          steps: [
            andRace({
              id: "race",
              steps: [
                andThen({
                  id: "a",
                  execute: ({ data, input, resumeData }) => [data.n, input.n, resumeData?.ok] as const,
                }),
              ],
            }),
            andWorkflow({ id: "x", workflow: sub }),
            andWhen({
              id: "w2",
              condition: ({ data }) => data.n > 2,
              step: andAgent({ id: "g", agent, prompt: ({ data }) => `${data.n}` }),
            }),
          ],
        }),
      }),
    ).toEqualTypeOf<{ n: number } | [readonly [number, number, boolean | undefined], bigint, { n: number } | string]>();
  });
  it("types a hoisted step by its inputSchema or its annotation", () => {
    const bySchema = andThen({ id: "a", inputSchema: v.object({ n: v.number() }), execute: ({ data }) => data.n });
    const byAnnotation = andThen({ id: "b", execute: ({ data }: StepContext<{ n: number }>) => `${data.n}` });
    dataOf(() => start().andAll({ id: "all", steps: [bySchema, byAnnotation] })).toEqualTypeOf<[number, string]>();
  });
});
