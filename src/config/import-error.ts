import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { attempt } from "../core/attempt.ts";
import { nearest } from "../core/schemas/explain.ts";
import type { Place } from "./error.ts";
import { findImport, findImportedName } from "./frame.ts";

/** A mistake in an import: the module does not exist, or it does not have the name. */
export interface ImportMistake {
  readonly problem: string;
  /** The file with the import. */
  readonly file: string | undefined;
  readonly place: Place | undefined;
  readonly hint: string | undefined;
}

/** The names that a module of ours exports, by its specifier. */
export type OwnExports = (specifier: string) => readonly string[] | undefined;

/** Returns the missing module, and the file that imports it. */
export function toMissing(error: unknown): { name: string; from: string | undefined } | undefined {
  if (!(error instanceof Error) || !("requireStack" in error) || !Array.isArray(error.requireStack)) return undefined;
  const name = /^Cannot find module '(?<name>[^']+)'/.exec(String(error.message))?.groups?.["name"];
  return name === undefined ? undefined : { name, from: error.requireStack[0] };
}

export function toMissingModule(error: Error): ImportMistake | undefined {
  const missing = toMissing(error);
  if (!missing) return undefined;
  const { name, from } = missing;
  const [problem = ""] = error.message.split("\n");
  const place = from === undefined ? undefined : findImport(from, name);
  return { problem, file: from, place, hint: toHint(name, from) };
}

function toHint(name: string, from: string | undefined): string | undefined {
  const meant = nearest(name, ["agentserve", "agentserve/models", "agentserve/backends/restate"]);
  if (meant.length > 0) return `did you mean ${meant.join(" or ")}?`;
  if (!/^[./#]/.test(name)) return `npm install ${name.split("/", name.startsWith("@") ? 2 : 1).join("/")}`;
  if (from === undefined || name.startsWith("#")) return undefined;
  const folder = dirname(name);
  const files = attempt(() => readdirSync(join(dirname(from), folder))) ?? [];
  const near = nearest(basename(name), files).map((file) => `${folder}/${file}`);
  return near.length > 0 ? `did you mean ${near.join(" or ")}?` : undefined;
}

/**
 * Recognizes a call of a missing export: compiled, `defineWorkfow()` is `(0, _agentserve.defineWorkfow)()`. The place is the
 * import.
 */
export function toMissingName(
  error: Error,
  called: Place | undefined,
  exportsOf: OwnExports,
): ImportMistake | undefined {
  const [, name] = /^(?:\(0 ?, ?)?_[\w$]+\.([\w$]+)\)? is not a (?:function|constructor)$/.exec(error.message) ?? [];
  if (name === undefined || !called) return undefined;
  const found = findImportedName(called.file, name);
  if (!found) return undefined;
  const { specifier, place } = found;
  const near = nearest(name, exportsOf(specifier) ?? []);
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : undefined;
  return { problem: `"${specifier}" has no export named "${name}"`, file: called.file, place, hint };
}
