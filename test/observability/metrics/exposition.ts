/** A metric of the Prometheus text format 0.0.4. */
export interface Family {
  readonly name: string;
  readonly type: string;
  readonly samples: readonly Sample[];
}
interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const nameRule = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const labelRule = String.raw`[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*"`;
const sampleRule = new RegExp(String.raw`^(${nameRule})(?:\{(${labelRule}(?:,${labelRule})*)\})? (\S+)$`, "u");
const valueRule = /^(?:\+Inf|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/;

/** Parses the format, and throws for everything that a strict parser could object to. */
export function parseExposition(text: string): Map<string, Family> {
  if (!text.isWellFormed() || !text.endsWith("\n")) throw new Error("expected UTF-8 text that ends with a line break");
  const families = new Map<string, { name: string; type: string; samples: Sample[] }>();
  let current: { name: string; type: string; samples: Sample[] } | undefined;
  let helped: string | undefined;
  for (const line of text.slice(0, -1).split("\n")) {
    const [, keyword, name = "", rest = ""] = new RegExp(`^# (HELP|TYPE) (${nameRule}) (.+)$`).exec(line) ?? [];
    if (keyword === "HELP") {
      if (families.has(name)) throw new Error(`${name} comes twice`);
      helped = name;
    } else if (keyword === "TYPE") {
      if (helped !== name || !["counter", "gauge", "histogram"].includes(rest)) throw new Error(`bad TYPE: ${line}`);
      current = { name, type: rest, samples: [] };
      families.set(name, current);
    } else {
      const sample = parseSample(line);
      const suffix = current?.type === "histogram" ? "(?:_bucket|_sum|_count)" : "";
      if (!current || !new RegExp(`^${current.name}${suffix}$`).test(sample.name))
        throw new Error(`stray line: ${line}`);
      current.samples.push(sample);
    }
  }
  for (const family of families.values()) checkFamily(family);
  return families;
}

function parseSample(line: string): Sample {
  const [, name, labels = "", value = ""] = sampleRule.exec(line) ?? [];
  if (!name || !valueRule.test(value)) throw new Error(`not a sample: ${line}`);
  const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/gu)].map(([, key, text]) => [key!, unescape(text!)]);
  const keys = pairs.map(([key]) => key);
  if (new Set(keys).size !== keys.length) throw new Error(`a label comes twice: ${line}`);
  return { name, labels: Object.fromEntries(pairs), value: value === "+Inf" ? Infinity : Number(value) };
}

const unescape = (text: string): string =>
  text.replaceAll(/\\(.)/g, (_, letter: string) => (letter === "n" ? "\n" : letter));

function checkFamily({ name, type, samples }: Family): void {
  const keys = samples.map((sample) => JSON.stringify([sample.name, Object.entries(sample.labels).toSorted()]));
  if (new Set(keys).size !== keys.length) throw new Error(`${name}: a series comes twice`);
  if ((type === "counter") !== name.endsWith("_total")) throw new Error(`${name}: only counters end with _total`);
  if (type !== "gauge" && samples.some(({ value }) => value < 0)) throw new Error(`${name}: negative`);
  if (type === "histogram") checkHistogram(name, samples);
}

function checkHistogram(name: string, samples: readonly Sample[]): void {
  const groups = Map.groupBy(samples, ({ labels }) => JSON.stringify({ ...labels, le: undefined }));
  for (const group of groups.values()) {
    const buckets = group.filter((sample) => sample.name.endsWith("_bucket"));
    const bounds = buckets.map(({ labels: { le = "" } }) => (le === "+Inf" ? Infinity : Number(le)));
    const isAscending = (list: readonly number[], mayEqual: boolean): boolean =>
      list.every((value, at) => at === 0 || value > list[at - 1]! || (mayEqual && value === list[at - 1]));
    const values = buckets.map(({ value }) => value);
    const [count] = group.filter((sample) => sample.name === `${name}_count`);
    const [sum] = group.filter((sample) => sample.name === `${name}_sum`);
    if (!isAscending(bounds, false) || bounds.at(-1) !== Infinity) throw new Error(`${name}: bounds are not ascending`);
    if (!isAscending(values, true)) throw new Error(`${name}: buckets are not cumulative`);
    if (!sum || count?.value !== values.at(-1)) throw new Error(`${name}: the count is not that of the last bucket`);
  }
}

/** Returns the samples of a metric as `label,label` → value, without those that are 0. */
export function valuesOf(families: ReadonlyMap<string, Family>, name: string): Record<string, number> {
  const { samples = [] } = families.get(name) ?? {};
  const entries = samples.map(({ labels, value }) => [Object.values(labels).join(","), value] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== 0));
}
