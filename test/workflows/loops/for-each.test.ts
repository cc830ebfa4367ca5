import * as v from "valibot";
import {
  andAgent,
  andAll,
  andForEach,
  andThen,
  andWorkflow,
  defineAgent,
  defineWorkflow,
  type StepContext,
} from "agentserve";
import { expect, it } from "vitest";
import { echoModel } from "../../../src/models.ts";
import { withBounds } from "../../harness/bounds.ts";
import { describeInProcess, type TestServer } from "../../harness/server.ts";

const long = (name: string, bytes: number) => name + "x".repeat(bytes);
const double = (id = "double") => andThen({ id, execute: ({ data }: StepContext<number>) => data * 2 });
const agent = defineAgent({ id: "echo", instructions: "Echo", model: echoModel() });
const sub = defineWorkflow({ id: "sub", input: v.object({ n: v.number() }) })
  .andThen({ id: "list", execute: ({ data }) => [data.n, data.n + 1] })
  .andForEach({
    id: "inner",
    step: andThen({ id: "add", execute: ({ data, input, stepId }) => `${stepId} ${data + input.n}` }),
  });

const numbers = defineWorkflow({ id: "numbers" })
  .andThen({ id: "list", execute: ({ data }) => data["list"] as number[] })
  .andForEach({ id: "each", step: double() });
const sources = defineWorkflow({ id: "sources" })
  .andForEach({
    id: "each",
    items: async ({ input }) => input["list"] as number[],
    map: ({ data, input }, item, index) => ({ n: item, index, keys: Object.keys(data), same: data === input }),
    steps: [
      andThen({ id: "first", execute: ({ data }: StepContext<{ n: number }>) => data.n * 10 }),
      andThen({
        id: "second",
        execute: ({ data, getStepData, stepId, idempotencyKey }: StepContext<number>) => {
          const seen = ["first", "each/0/first", "each", "second"].map((id) => getStepData(id) ?? null);
          return { data, seen, stepId, key: idempotencyKey.split("/").slice(1).join("/") };
        },
      }),
    ],
  })
  .andThen({
    id: "outside",
    execute: ({ data, getStepData }) => ({
      data,
      seen: ["first", "each/1/first", "each/first", "each/9/first"].map((id) => getStepData(id) ?? null),
    }),
  });
const empty = defineWorkflow({ id: "empty" }).andForEach({
  id: "each",
  items: () => [null, 0, ""],
  concurrency: Infinity,
  step: andThen({ id: "s", execute: ({ data }) => ({ data }) }),
});
const nothing = defineWorkflow({ id: "nothing" }).andForEach({
  id: "each",
  items: () => [1, 2],
  step: andThen({ id: "s", execute: () => undefined }),
});
const grid = defineWorkflow({ id: "grid" })
  .andThen({ id: "rows", execute: () => [[1, 2], [], [3]] })
  .andForEach({
    id: "row",
    concurrency: 2,
    step: andForEach({
      id: "cell",
      concurrency: 2,
      step: andThen({ id: "s", execute: ({ data, stepId }) => `${stepId}=${data}` }),
    }),
  });
const subs = defineWorkflow({ id: "subs" })
  .andThen({ id: "list", execute: () => [{ n: 1 }, { n: 5 }] })
  .andForEach({ id: "each", step: andAll({ id: "all", steps: [andWorkflow({ id: "sub", workflow: sub })] }) });
const agents = defineWorkflow({ id: "agents" })
  .andThen({ id: "list", execute: () => ["one", "two", "three"] })
  .andForEach({
    id: "each",
    concurrency: 3,
    step: andThen({ id: "prepare", execute: ({ data }) => `page ${data}` }),
  })
  .andForEach({
    id: "ask",
    concurrency: 2,
    step: andAgent({ id: "answer", agent, prompt: ({ data }) => data }),
  });
const longItems = defineWorkflow({ id: "long" })
  .andForEach({
    id: "each",
    items: () => Array.from({ length: 300 }, (_, index) => long(`${index}`, 4_000)),
    concurrency: 10,
    step: andThen({ id: "s", execute: ({ data }: StepContext<string>) => ({ text: data, of: parseInt(data, 10) }) }),
  })
  .andForEach({ id: "again", step: andThen({ id: "t", execute: ({ data }) => [data.of, data.text.length] }) });
const copies = defineWorkflow({ id: "copies" })
  .andThen({ id: "list", execute: () => Array.from({ length: 3 }, () => ({ list: [1], text: long("", 2_000) })) })
  .andForEach({
    id: "each",
    step: andThen({
      id: "spoil",
      execute: ({ data }) => {
        data.list.push(2);
        return data.list.length;
      },
    }),
  })
  .andThen({ id: "end", execute: ({ data, getStepData }) => [data, (getStepData("list") as { list: [] }[])[0]!.list] });
const notArray = defineWorkflow({ id: "not-array" })
  .andThen({ id: "s", execute: ({ data }) => data["value"] as number[] })
  .andForEach({ id: "each", step: double() });
const failingItems = defineWorkflow({ id: "failing-items" }).andForEach({
  id: "each",
  items: (): number[] => {
    throw new Error("no list today");
  },
  step: double(),
});
const collected = defineWorkflow({ id: "collected" })
  .andThen({ id: "list", execute: () => [1, 2, 3, 4] })
  .andForEach({
    id: "each",
    onError: "collect",
    concurrency: 2,
    map: (_context, item) => {
      if (item === 4) throw new Error("cannot map 4");
      return item;
    },
    steps: [
      andThen({
        id: "fail",
        retry: { attempts: 2 },
        execute: ({ data, attempt }: StepContext<number>) => {
          if (data === 2 || (data === 3 && attempt === 1)) throw new Error(`cannot ${data} (${attempt})`);
          return data;
        },
      }),
      double(),
    ],
  });

const workflows = [numbers, sources, empty, nothing, grid, subs, agents, longItems, copies, notArray, failingItems];
const bounds = { loopItems: 300, loopConcurrency: 7 };
const config = withBounds(bounds, { agents: [agent], workflows: [...workflows, collected] });

let count = 0;
async function execute(server: TestServer, id: string, input: object = {}) {
  const executionId = `fe${++count}`;
  const { status, body } = await server.post(`/workflows/${id}/execute`, { input, options: { executionId } });
  return { executionId, status, result: body.data?.result };
}
/** The error that was logged of an execution that fails. */
async function failure(server: TestServer, id: string, input?: object): Promise<string | undefined> {
  const { executionId, status } = await execute(server, id, input);
  expect(status).toBe(500);
  const logged = server.logs.find(({ data }) => data?.["executionId"] === executionId);
  return (logged?.data?.["error"] as Error | undefined)?.message;
}
async function events(server: TestServer, workflow: string, executionId: string) {
  const { events: all } = await server.get(`/workflows/${workflow}/executions/${executionId}/stream`);
  return all.filter(({ type }) => type.startsWith("step-")).map(({ type, from }) => `${type.slice(5)} ${from}`);
}

describeInProcess("andForEach", config, (server) => {
  it("makes a list of the outputs of andForEach in order, with its events", async () => {
    const { executionId, result } = await execute(server, "numbers", { list: [1, 2] });
    expect(result).toEqual([2, 4]);
    expect(await events(server, "numbers", executionId)).toEqual([
      "start list",
      "complete list",
      "start each",
      "start each/0/double",
      "complete each/0/double",
      "start each/1/double",
      "complete each/1/double",
      "complete each",
    ]);
  });

  it("runs no step of andForEach without items", async () => {
    const { executionId, result } = await execute(server, "numbers", { list: [] });
    expect(result).toEqual([]);
    expect((await events(server, "numbers", executionId)).slice(2)).toEqual(["start each", "complete each"]);
  });

  it("takes the items of andForEach from a function, maps each, and runs several steps in a row", async () => {
    const { result } = await execute(server, "sources", { list: [1, 2] });
    const item = (index: number, n: number) => ({
      data: n * 10,
      seen: [n * 10, 10, null, null],
      stepId: `each/${index}/second`,
      key: `each/${index}/second`,
    });
    expect(result.data).toEqual([item(0, 1), item(1, 2)]);
    expect(result.seen).toEqual([null, 20, null, null]);
  });

  it("takes null for an item of andForEach; an item without a result is null", async () => {
    expect((await execute(server, "empty")).result).toEqual([{ data: null }, { data: 0 }, { data: "" }]);
    expect((await execute(server, "nothing")).result).toEqual([null, null]);
  });

  it("runs andForEach in loops, over sub-workflows with loops, and over agents", async () => {
    expect((await execute(server, "grid")).result).toEqual([
      ["row/0/cell/0/s=1", "row/0/cell/1/s=2"],
      [],
      ["row/2/cell/0/s=3"],
    ]);
    expect((await execute(server, "subs")).result).toEqual([
      [["each/0/sub/inner/0/add 2", "each/0/sub/inner/1/add 3"]],
      [["each/1/sub/inner/0/add 10", "each/1/sub/inner/1/add 11"]],
    ]);
    const { result } = await execute(server, "agents");
    expect(result.map((text: string) => /one|two|three/.exec(text)?.[0])).toEqual(["one", "two", "three"]);
  });

  it("takes items of andForEach of any length, over 1 MB in all", async () => {
    const { result } = await execute(server, "long");
    expect(result).toEqual(Array.from({ length: 300 }, (_, index) => [index, `${index}`.length + 4_000]));
  });

  it("gives each item of andForEach its own copy", async () => {
    expect((await execute(server, "copies")).result).toEqual([[2, 2, 2], [1]]);
  });

  it("fails andForEach without an array or a list of items", async () => {
    for (const value of [null, { length: 1 }, "text"])
      expect(await failure(server, "not-array", { value })).toBe("andForEach each: expected an array");
    expect(await failure(server, "failing-items")).toBe("no list today");
  });

  it("fails andForEach over more items than loopItems", async () => {
    const list = Array.from({ length: bounds.loopItems + 1 }, (_, index) => index);
    expect(await failure(server, "numbers", { list })).toBe("andForEach each: 301 items are more than the max of 300");
    const { result } = await execute(server, "numbers", { list: list.slice(1) });
    expect(result).toEqual(list.slice(1).map((n) => n * 2));
  });

  it("collects the result of each item with onError: collect; a step is retried inside its item", async () => {
    const { executionId, result } = await execute(server, "collected");
    expect(result).toEqual([
      { status: "success", value: 2 },
      { status: "error", error: "cannot 2 (2)" },
      { status: "success", value: 6 },
      { status: "error", error: "cannot map 4" },
    ]);
    const all = await events(server, "collected", executionId);
    expect(all.filter((text) => text.includes("each/1/") || text.includes("each/3/"))).toEqual(["start each/1/fail"]);
  });
});
