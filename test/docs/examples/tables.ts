import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { readPackageTypes } from "../package-types.ts";

/** `GET /agents`, as `/doc` would write it, of each row of the table of endpoints. */
export function readEndpoints(): string[] {
  return readRows("Endpoints", /^`/).map(([cell]) => {
    const [, method = "GET", path] = /^`(?:([A-Z]+) )?(.+)`$/.exec(cell!)!;
    const whole = path!.replace(/^…/, "/workflows/:id/executions");
    return `${method} ${whole.replace(/\/:(\w+)/g, "/{$1}")}`;
  });
}

/** The limits that the reference lists, with their defaults as numbers. */
export const readLimits = (): Record<string, number> => toNumbers(readRows("Limits", /^`/));

/** The constants of the internals, with their values as numbers. */
export const readConstants = (): Record<string, number> =>
  toNumbers(toRows(readFileSync("docs/internals/constants.md", "utf8"), /^`/));

function toNumbers(rows: readonly string[][]): Record<string, number> {
  const numbers: Record<string, number> = {};
  for (const [cell, text] of rows) {
    const values = text!.split(", ");
    for (const [at, key] of toNames(cell!).entries()) numbers[key] = toNumber(values[at]!);
  }
  return numbers;
}

const units: Record<string, number> = { "": 1, KiB: 1_024, MiB: 1_048_576, ms: 1, s: 1_000, min: 60_000 };
function toNumber(text: string): number {
  const [, digits, unit = ""] = /^([\d,]+)(?: (\w+))?$/.exec(text) ?? [];
  expect(units, text).toHaveProperty(unit || [""]);
  return Number(digits!.replaceAll(",", "")) * units[unit]!;
}

/** The keys of the config, of `server`, of `embedded()` and of `restate()` that the reference lists. */
export const readKeys = (): string[] => readRows("Configuration", /^`/).flatMap(([cell]) => toNames(cell!));

/** The keys of an interface that the package exports. */
export function readInterface(name: string): string[] {
  const types = readPackageTypes();
  const [, body] = new RegExp(`\\ninterface ${name} \\{\\n([^]*?)\\n\\}`).exec(types)!;
  return [...body!.matchAll(/^ {2}(\w+)\??[:(]/gm)].map(([, key]) => key!);
}

const toNames = (cell: string): string[] => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name!);

/** The cells of each table row of one section of the reference whose first cell matches. */
function readRows(section: string, first: RegExp): string[][] {
  const [, text] = new RegExp(`\n## ${section}\n([^]*?)(?=\n## |$)`).exec(readFileSync("docs/reference.md", "utf8"))!;
  return toRows(text!, first);
}

function toRows(text: string, first: RegExp): string[][] {
  const lines = text.split("\n").filter((line) => line.startsWith("| "));
  return lines.map((line) => line.slice(2, -2).split(" | ")).filter(([cell]) => first.test(cell!));
}
