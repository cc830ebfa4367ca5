import { expect, it } from "vitest";
import { Exposition } from "../../../src/observability/metrics/exposition.ts";
import { Histogram } from "../../../src/observability/metrics/histogram.ts";
import { parseExposition } from "./exposition.ts";

const head = "# HELP a_total Help.\n# TYPE a_total counter\n";
const histogram = (lines: string): string => `# HELP h Help.\n# TYPE h histogram\n${lines}`;

it("reads labels with escapes", () => {
  const { samples } = parseExposition(`${head}a_total{route="a\\"\\\\\\n",status="1"} 1e+21\n`).get("a_total")!;
  expect(samples).toEqual([{ name: "a_total", labels: { route: 'a"\\\n', status: "1" }, value: 1e21 }]);
});

it.each([
  ["no line break at the end", `${head}a_total 1`],
  ["a sample without a TYPE", "a_total 1\n"],
  ["a metric that comes twice", `${head}a_total 1\n${head}a_total 2\n`],
  ["a series that comes twice", `${head}a_total{x="1"} 1\na_total{x="1"} 2\n`],
  ["an unknown escape", `${head}a_total{x="\\q"} 1\n`],
  ["a quotation mark in a label", `${head}a_total{x="a"b"} 1\n`],
  ["a value that is not a number", `${head}a_total NaN1\n`],
  ["a negative counter", `${head}a_total -1\n`],
  ["a counter without _total", "# HELP a Help.\n# TYPE a counter\na 1\n"],
  ["a sample of another metric", `${head}b_total 1\n`],
  ["a histogram without +Inf", histogram('h_bucket{le="1"} 1\nh_sum 1\nh_count 1\n')],
  ["buckets that decrease", histogram('h_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n')],
  ["a count that differs", histogram('h_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n')],
  ["a lone surrogate", `${head}a_total{x="\uD800"} 1\n`],
])("the strict parser refuses %s", (_, text) => {
  expect(() => parseExposition(text)).toThrow();
});

it("any text can be a label", () => {
  const out = new Exposition();
  const texts = ['"', "\\", "\n", "\\n", 'a"}', "\ud800", "😀", ""];
  const { sample } = out.metric("a_total", "counter", "Help.");
  for (const [index, text] of texts.entries()) sample(index, [["route", text]]);
  const { samples } = parseExposition(out.toString()).get("a_total")!;
  expect(samples.map(({ labels }) => labels["route"])).toEqual(texts.map((text) => text.toWellFormed()));
});

it("a bucket of a histogram includes the durations at its bound", () => {
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
