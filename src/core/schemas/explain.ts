import * as v from "valibot";
import { cut } from "../cut.ts";

/** Describes one issue in a sentence: `server.port: expected a port number from 0 to 65535, found "80"`. */
export function explain(schema: v.GenericSchema, issue: v.BaseIssue<unknown>): string {
  const place = cut(v.getDotPath(issue) ?? "");
  if (issue.type === "strict_object" && issue.expected === "never")
    return `${place}: unknown key${toKeyHint(schema, issue)}`;
  const expected = `expected ${issue.message}, found ${describe(issue.input)}`;
  return place ? `${place}: ${expected}` : expected;
}

export function describe(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > 60 ? cut(text, 57) : text;
}

function toKeyHint(schema: v.GenericSchema, issue: v.BaseIssue<unknown>): string {
  const keys = (issue.path ?? []).map((item) => String(item.key));
  const unknown = keys.pop() ?? "";
  const names = keysAt(schema, keys);
  const near = nearest(unknown, names);
  if (near.length > 0) return `; did you mean ${near.join(" or ")}?`;
  return names.length > 0 ? `; expected ${names.join(", ")}` : "";
}

/** Returns the names within an edit distance of `letters`, for "did you mean" hints. */
export function nearest(unknown: string, names: readonly string[], letters = 2): string[] {
  return names.filter((name) => distance(name, unknown) <= letters);
}

/** Returns the keys that a schema allows at a path. */
function keysAt(schema: v.GenericSchema, path: string[]): string[] {
  const open = schema as { wrapped?: v.GenericSchema; getter?: (value: unknown) => v.GenericSchema };
  if (open.wrapped) return keysAt(open.wrapped, path);
  if (open.getter) return keysAt(open.getter({}), path);
  const { entries = {} } = schema as { entries?: Record<string, v.GenericSchema> };
  const [key, ...rest] = path;
  if (key === undefined) return Object.keys(entries);
  return entries[key] ? keysAt(entries[key], rest) : [];
}

/** The Levenshtein distance of two short names. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    let diagonal = 0;
    let left = 0;
    row = row.map((above, j) => {
      left = j === 0 ? i : Math.min(above + 1, left + 1, diagonal + (a[i - 1] === b[j - 1] ? 0 : 1));
      diagonal = above;
      return left;
    });
  }
  return row.at(-1) ?? 0;
}
