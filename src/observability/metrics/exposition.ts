import type { Histogram } from "./histogram.ts";

type Type = "counter" | "gauge" | "histogram";
type LabelPairs = readonly (readonly [name: string, value: string])[];

/** The media type of the Prometheus text format. */
export const mediaType = "text/plain; version=0.0.4; charset=utf-8";

/** Writes metrics in the Prometheus text format: each with its HELP and TYPE, and all samples of it together. */
export class Exposition {
  #text = "";

  /** Begins a metric. The next samples belong to it. */
  metric(name: string, type: Type, help: string): Samples {
    this.#text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
    const add = (suffix: string, labels: LabelPairs, value: number): void => {
      this.#text += `${name}${suffix}${toLabels(labels)} ${toNumber(value)}\n`;
    };
    return {
      sample: (value, labels = []) => add("", labels, value),
      histogram({ bounds, counts, sum }, labels = []) {
        let count = 0;
        for (const [at, own] of counts.entries()) {
          count += own;
          add("_bucket", [...labels, ["le", toNumber(bounds[at] ?? Infinity)]], count);
        }
        add("_sum", labels, sum);
        add("_count", labels, count);
      },
    };
  }

  toString(): string {
    return this.#text;
  }
}

export interface Samples {
  sample(value: number, labels?: LabelPairs): void;
  histogram(histogram: Histogram, labels?: LabelPairs): void;
}

function toLabels(labels: LabelPairs): string {
  if (labels.length === 0) return "";
  return `{${labels.map(([name, value]) => `${name}="${escape(value)}"`).join(",")}}`;
}

/** Escapes the text of a label. A lone surrogate would not be UTF-8. */
const escape = (text: string): string =>
  text.toWellFormed().replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');

const toNumber = (value: number): string => (value === Infinity ? "+Inf" : String(value));
