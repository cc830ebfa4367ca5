// Each of these changes makes a test of this file fail: cached input at the full price although it has its own; a cost of a row
// that has a model without a price; a cost with the dust of floating-point sums; a price that is not checked.
import { parseConfig } from "../../../src/config/parse.ts";
import { expect, it } from "vitest";
import type { Config } from "../../../src/config/define.ts";
import { serve } from "../../workflows/waits/serve.ts";
import { meteredAgent, meteredModel, readItems, toQuestion, type Tokens } from "./metered.ts";

async function costOf(prices: Config["prices"], calls: Tokens[], model = meteredModel("m", "maker.chat")) {
  const server = serve({ agents: [meteredAgent("a", { model })], ...(prices && { prices }) });
  await server.post("/agents/a/text", { input: toQuestion(...calls) });
  const [{ cost, ...item }] = (await readItems(server, "a")) as [any];
  expect(item.calls).toBe(calls.length);
  return cost;
}

it("the cost of usage has a cost if the prices have its model, under its full name or without the kind of its API", async () => {
  const price = { input: 2, output: 10 };
  expect(await costOf({ "maker.chat/m": price }, [[1_000_000, 0]])).toBe(2);
  expect(await costOf({ "maker/m": price }, [[1_000_000, 500_000]])).toBe(7);
  expect(await costOf({ "maker.chat/m": price, "maker/m": { input: 99, output: 99 } }, [[1_000_000, 0]])).toBe(2);
  expect(await costOf({ "other/m": price, "maker.chat/n": price }, [[1, 1]])).toBeUndefined();
  expect(await costOf({}, [[1, 1]])).toBeUndefined();
  expect(await costOf(undefined, [[1, 1]])).toBeUndefined();
  expect(await costOf({ "maker/deep/model": price }, [[1_000_000, 0]], meteredModel("deep/model", "maker"))).toBe(2);
});

it("the cost of usage has a price for cached input, and counts reasoning as output", async () => {
  const prices = { "maker/m": { input: 2, output: 10, cachedInput: 0.5 } };
  expect(await costOf(prices, [[1_000_000, 0, 400_000]])).toBe(1.4);
  expect(await costOf({ "maker/m": { input: 2, output: 10 } }, [[1_000_000, 0, 400_000]])).toBe(2);
  expect(await costOf(prices, [[0, 1_000_000, 0, 900_000]])).toBe(10);
  // A provider may report more than the whole.
  expect(await costOf(prices, [[1_000_000, 0, 3_000_000]])).toBe(0.5);
});

it("the cost of usage is rounded to 9 decimals", async () => {
  expect(await costOf({ "maker/m": { input: 0.1, output: 0.2 } }, [[1, 1]])).toBe(0.0000003);
  expect(await costOf({ "maker/m": { input: 1 / 3, output: 0 } }, [[1, 0]])).toBe(0.000000333);
  expect(await costOf({ "maker/m": { input: 0, output: 0 } }, [[1, 1]])).toBe(0);
});

it("the cost of usage is absent for a row with a model that has no price, and follows the prices of the config", async () => {
  const agents = ["m", "n"].map((id) => meteredAgent(id, { model: meteredModel(id, "maker") }));
  const prices = { "maker/m": { input: 1, output: 1 } };
  const server = serve({ agents, prices });
  for (const id of ["m", "n"]) await server.post(`/agents/${id}/text`, { input: toQuestion([1_000_000, 0]) });
  expect(await readItems(server, "m")).toMatchObject([{ cost: 1 }]);
  expect((await readItems(server, "n"))[0]).not.toHaveProperty("cost");
});

it.each([
  [[], "prices: expected an object of prices by model, found an array"],
  [
    { gpt: { input: 1, output: 1 } },
    'prices.gpt: expected a provider and a model, such as "openai/gpt-5", found "gpt"',
  ],
  [{ "a/b": { input: 1 } }, "prices.a/b.output: expected an object such as { input: 1, output: 10 }, found nothing"],
  [{ "a/b": { input: -1, output: 1 } }, "prices.a/b.input: expected a number from 0, found -1"],
  [{ "a/b": { input: 1, output: Infinity } }, "prices.a/b.output: expected a number from 0, found Infinity"],
  [{ "a/b": { input: 1, output: NaN } }, "prices.a/b.output: expected a number from 0, found NaN"],
  [{ "a/b": { input: 1, output: 1, cachedInput: "1" } }, 'prices.a/b.cachedInput: expected a number from 0, found "1"'],
  [{ "a/b": { input: 1, output: 1, cached: 1 } }, "prices.a/b.cached: unknown key"],
  [{ "a/b": 7 }, "prices.a/b: expected an object such as { input: 1, output: 10 }, found 7"],
])("refuses the prices %j", (prices, problem) => {
  expect(() => parseConfig({ prices }, "agents.config.ts")).toThrow(problem);
});
