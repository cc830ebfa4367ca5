import { readFileSync } from "node:fs";
import type { Place } from "./error.ts";

const around = 2;
const widest = 160;

/**
 * Returns the numbered lines around a place, with a mark below it. Lines are cut to the columns of the terminal; the place
 * itself stays visible. Undefined if the file cannot be read.
 */
export function toFrame(
  { file, line, column }: Place,
  columns: number = process.stderr.columns || widest,
): string | undefined {
  const lines = readLines(file);
  if (!lines?.[line - 1]) return undefined;
  const first = Math.max(1, line - around);
  const shown = lines.slice(first - 1, line + around);
  const width = String(first + shown.length - 1).length;
  const room = Math.max(Math.min(columns, widest) - width - "> ".length - " | ".length, fewest);
  // A place far to the right: its line begins later.
  const from = column !== undefined && column > room ? column - Math.floor(room / 2) : 0;
  return shown
    .flatMap((text, at) => {
      const number = first + at;
      const row =
        `${number === line ? ">" : " "} ${String(number).padStart(width)} | ${cutTo(text, number === line ? from : 0, room)}`.trimEnd();
      if (number !== line || column === undefined) return [row];
      // Tabs are kept, so that the mark is aligned.
      const indent = text.slice(from, column - 1).replace(/[^\t]/g, " ");
      return [row, `  ${" ".repeat(width)} | ${indent}^`];
    })
    .join("\n");
}
const fewest = 20;

/** Returns the part of a line from a column on that fits, with an ellipsis where something is missing. */
function cutTo(text: string, from: number, room: number): string {
  const start = from > 0 && text.length > from ? `…${text.slice(from + 1)}` : text.slice(from);
  return start.length > room ? `${start.slice(0, room - 1)}…` : start;
}

/** Finds nested keys in a file: `["server", "port"]` is the `port` inside `server`. */
export function findKey(file: string, keys: readonly string[]): Place | undefined {
  const text = readLines(file)?.join("\n") ?? "";
  let at = 0;
  for (const key of keys) {
    if (/^\d+$/.test(key)) continue; // an index of an array
    const found = new RegExp(`(?<![\\w$.])["'\`]?${escape(key)}["'\`]?\\s*[:(,}]`).exec(text.slice(at));
    if (!found) return undefined;
    at += found.index;
  }
  return at === 0 ? undefined : toPlace(file, text, at);
}

/** Finds the last place in a file that defines this id. */
export function findId(file: string, id: string): Place | undefined {
  const text = readLines(file)?.join("\n") ?? "";
  const found = [...text.matchAll(new RegExp(`\\bid\\s*:\\s*["'\`]${escape(id)}["'\`]`, "g"))].at(-1);
  return found ? toPlace(file, text, found.index) : undefined;
}

/** Finds the first import of a module in a file. */
export function findImport(file: string, specifier: string): Place | undefined {
  const text = readLines(file)?.join("\n") ?? "";
  const found = new RegExp(`(?:\\bfrom|\\bimport|\\brequire)\\s*\\(?\\s*(?=["'\`]${escape(specifier)}["'\`])`).exec(
    text,
  );
  return found ? toPlace(file, text, found.index + found[0].length) : undefined;
}

/** Finds a name in the named imports of a file, under its original name. */
export function findImportedName(file: string, name: string): { specifier: string; place: Place } | undefined {
  const text = readLines(file)?.join("\n") ?? "";
  for (const found of text.matchAll(
    /\bimport\s*(?:[\w$]+\s*,\s*)?\{(?<names>[^}]*)\}\s*from\s*["'](?<specifier>[^"']+)["']/g,
  )) {
    const { names = "", specifier = "" } = found.groups ?? {};
    const at = new RegExp(`(?<![\\w$])(?<!\\bas\\s+)${escape(name)}(?![\\w$])`).exec(names);
    if (at) return { specifier, place: toPlace(file, text, found.index + found[0].indexOf("{") + 1 + at.index) };
  }
  return undefined;
}

const escape = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

function toPlace(file: string, text: string, at: number): Place {
  const before = text.slice(0, at).split("\n");
  return { file, line: before.length, column: before.at(-1)!.length + 1 };
}

function readLines(file: string): string[] | undefined {
  try {
    return readFileSync(file, "utf8").split(/\r?\n/);
  } catch {
    return undefined;
  }
}
