import { readFileSync } from "node:fs";
import { expect } from "vitest";

/** `GET /agents`, as `/doc` would write it, of each row of the table of endpoints. */
export function readEndpoints(): string[] {
  return readRows(/^`([A-Z]+ [/…]|\/)/).map(([cell]) => {
    const [, method = "GET", path] = /^`(?:([A-Z]+) )?(.+)`$/.exec(cell!)!;
    const whole = path!.replace(/^…/, "/workflows/:id/executions");
    return `${method} ${whole.replace(/\/:(\w+)/g, "/{$1}")}`;
  });
}

/** The limits that the README lists, with their defaults as numbers. */
export function readLimits(): Record<string, number> {
  const limits: Record<string, number> = {};
  for (const [cell, defaults] of readRows(/^`[a-z]\w+`/)) {
    const keys = [...cell!.replace(/\(.*?\)/g, "").matchAll(/`(\w+)`/g)].map(([, key]) => key!);
    const values = defaults!.split(", ");
    for (const [at, key] of keys.entries()) limits[key] = toNumber(values[at]!);
  }
  return limits;
}

const units: Record<string, number> = { "": 1, KiB: 1_024, MiB: 1_048_576, ms: 1, s: 1_000, min: 60_000 };
function toNumber(text: string): number {
  const [, digits, unit = ""] = /^([\d,]+)(?: (\w+))?$/.exec(text) ?? [];
  expect(units, text).toHaveProperty(unit || [""]);
  return Number(digits!.replaceAll(",", "")) * units[unit]!;
}

/** The keys that the README's chapter on the config names. */
export function readKeys(): string[] {
  const [, chapter] = /\n## Configuration\n([^]*?)\nLimits,/.exec(readFileSync("README.md", "utf8"))!;
  return [...chapter!.matchAll(/`(\w+)(?:`|: )/g)].map(([, key]) => key!);
}

/** The keys of an interface that the package exports. */
export function readInterface(name: string): string[] {
  const types = readFileSync("dist/index.d.mts", "utf8");
  const [, body] = new RegExp(`\\ninterface ${name} \\{\\n([^]*?)\\n\\}`).exec(types)!;
  return [...body!.matchAll(/^ {2}(\w+)\??[:(]/gm)].map(([, key]) => key!);
}

/** The cells of every row of every table of the README whose first cell begins so. */
function readRows(first: RegExp): string[][] {
  const lines = readFileSync("README.md", "utf8").split("\n");
  const rows = lines.filter((line) => line.startsWith("| ")).map((line) => line.slice(2, -2).split(" | "));
  return rows.filter(([cell]) => first.test(cell!));
}
