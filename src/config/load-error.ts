import { basename, dirname, relative, resolve, sep } from "node:path";
import { ConfigError, type Place } from "./error.ts";

/** What went wrong while a user's file was read or ran, with the place in their own code. */
export function toLoadError(error: unknown, file: string, root: string): ConfigError {
  if (!(error instanceof Error)) {
    return new ConfigError(`${show(file)}: threw ${JSON.stringify(error)} while it was loaded`, { cause: error });
  }
  const [, problem, where, line, column] = /^ParseError: (.*?)\s*\n\s*(.+):(\d+):(\d+)\s*$/s.exec(error.message) ?? [];
  if (where) {
    // Its columns begin at 0.
    const place = { file: where, line: Number(line), column: Number(column) + 1 };
    return new ConfigError(`${showPlace(place)}: ${problem}`, { cause: error, place });
  }
  const [what = ""] = error.message.split("\n");
  const missing = toMissing(error);
  if (missing) {
    const { from, name } = missing;
    const isPackage = !/^[./]/.test(name);
    const hint = isPackage ? `npm install ${name.split("/", name.startsWith("@") ? 2 : 1).join("/")}` : undefined;
    return new ConfigError(`${show(from ?? file)}: ${what}`, { hint, cause: error });
  }
  const place = placeOf(error, root);
  return new ConfigError(`${place ? showPlace(place) : show(file)}: ${what}`, { cause: error, place });
}

/** What a version of the config cannot be served for: with its place, if it came out of the user's own code. */
export function withPlace(error: unknown, file: string, root: string): ConfigError {
  if (!(error instanceof ConfigError)) return toLoadError(error, file, root);
  const { message, hint, cause } = error;
  const place = error.place ?? (cause instanceof Error ? placeOf(cause, root) : undefined);
  return new ConfigError(message, { hint, cause, place });
}

/** The module that a file imports and that is not there. */
export function toMissing(error: unknown): { name: string; from: string | undefined } | undefined {
  if (!(error instanceof Error) || !("requireStack" in error) || !Array.isArray(error.requireStack)) return undefined;
  const name = /^Cannot find module '(?<name>[^']+)'/.exec(error.message)?.groups?.["name"];
  return name === undefined ? undefined : { name, from: error.requireStack[0] };
}

/** The folder in which a missing file would have to appear; undefined when it is a package that is missing. */
export function missingFolder({ cause }: ConfigError): string | undefined {
  const { name = "", from } = toMissing(cause) ?? {};
  return from !== undefined && /^[./]/.test(name) ? dirname(resolve(dirname(from), name)) : undefined;
}

/** The innermost place of a stack that is the user's own. */
export function placeOf(error: Error, root: string): Place | undefined {
  for (const [, where = "", line, column] of error.stack?.matchAll(/\(?((?:file:\/\/)?\/[^()\n]+):(\d+):(\d+)\)?$/gm) ??
    []) {
    const file = where.replace("file://", "");
    if (file.startsWith(root + sep) && !file.includes(`${sep}node_modules${sep}`))
      return { file, line: Number(line), column: Number(column) };
  }
  return undefined;
}

const showPlace = ({ file, line, column }: Place): string => `${show(file)}:${line}:${column}`;

/** A path as a person at this terminal would write it. */
export function show(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short || basename(path);
}
