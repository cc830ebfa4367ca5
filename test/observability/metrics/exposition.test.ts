import { expect, it } from "vitest";
import { Exposition } from "../../../src/observability/metrics/exposition.ts";
import { Histogram } from "../../../src/observability/metrics/histogram.ts";
import { parseExposition } from "./exposition.ts";

it("escapes any text in a metric label", () => {
  const out = new Exposition();
  const texts = ['"', "\\", "\n", "\\n", 'a"}', "\ud800", "😀", ""];
  const { sample } = out.metric("a_total", "counter", "Help.");
  for (const [index, text] of texts.entries()) sample(index, [["route", text]]);
  const { samples } = parseExposition(out.toString()).get("a_total")!;
  expect(samples.map(({ labels }) => labels["route"])).toEqual(texts.map((text) => text.toWellFormed()));
});

it("counts a duration at a bound in the bucket of that bound", () => {
  const durations = new Histogram([0.1, 1]);
  for (const seconds of [0.05, 0.1, 0.5, 1, 2]) durations.observe(seconds);
  const out = new Exposition();
  out.metric("h", "histogram", "Help.").histogram(durations);
  const { samples } = parseExposition(out.toString()).get("h")!;
  const buckets = samples.filter(({ name }) => name === "h_bucket");
  expect(buckets.map(({ labels, value }) => [labels["le"], value])).toEqual([
    ["0.1", 2],
    ["1", 4],
    ["+Inf", 5],
  ]);
});
