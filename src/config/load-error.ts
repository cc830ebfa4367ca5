import { basename, dirname, relative, resolve } from "node:path";
import { inspect } from "node:util";
import { toErrorMessage } from "../core/error.ts";
import { UserError } from "../core/user-error.ts";
import { ConfigError, type Place } from "./error.ts";
import { toMissing, toMissingModule, toMissingName, type OwnExports } from "./import-error.ts";
import { toSource } from "./source-map.ts";
import { placesOf } from "./stack.ts";

/** Converts an error in a user's file to a `ConfigError` with the place in the user's code. */
export function toLoadError(
  error: unknown,
  file: string,
  root: string,
  exportsOf: OwnExports = () => undefined,
): ConfigError {
  if (!(error instanceof Error)) {
    const what =
      typeof error === "string" ? JSON.stringify(error) : inspect(error, { depth: 0, breakLength: Infinity });
    return new ConfigError(`${show(file)}: threw ${what} while loading`, { cause: error });
  }
  const unread = toUnread(error);
  if (unread) return new ConfigError(`${showPlace(unread.place)}: ${unread.problem}`, { cause: error, ...unread });
  const [what = ""] = String(error.message || error.name).split("\n");
  const mistake = toMissingModule(error) ?? toMissingName(error, placeOf(error, root), exportsOf);
  if (mistake) {
    const { problem, place: at, hint } = mistake;
    return new ConfigError(`${at ? showPlace(at) : show(mistake.file ?? file)}: ${problem}`, {
      hint,
      place: at,
      cause: error,
    });
  }
  const { code, path } = error as NodeJS.ErrnoException;
  // jiti resolved the file, but it was removed before it was read. A file that is missing for the user's own code is reported
  // with the place of that code.
  if (code === "ENOENT" && typeof path === "string" && /\.[cm]?[jt]sx?$/.test(path)) {
    return new ConfigError(`${show(path)} no longer exists`, { cause: error, place: placeOf(error, root) });
  }
  const place = placeOf(error, root);
  return new ConfigError(`${place ? showPlace(place) : show(file)}: ${what}${toCauses(error)}`, {
    cause: error,
    place,
  });
}

const maxCauses = 4;
/** Returns a line for each cause of an error that its message does not have. An error may be its own cause. */
function toCauses({ message, cause }: Error, said: string = message): string {
  let text = "";
  for (let depth = 0; cause !== undefined && depth < maxCauses; depth++) {
    const [line = ""] = toErrorMessage(cause).split("\n");
    // Without the name in front: an error of ours has often the rest.
    if (!`${said}${text}`.includes(line.replace(/^\w+: /, ""))) text += `\n  caused by: ${line}`;
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return text;
}

/** Recognizes a syntax error in TypeScript or JSON. jiti and Node report them in different formats. */
function toUnread(error: Error): { problem: string; place: Place } | undefined {
  const message = String(error.message);
  const code = /^ParseError: (?<problem>.*?)\s*\n\s*(?<file>.+):(?<line>\d+):(?<column>\d+)\s*$/s.exec(message);
  const json = error instanceof SyntaxError ? toUnreadJson.exec(message) : undefined;
  const { problem = "", file = "", line = "1", column = "1" } = code?.groups ?? json?.groups ?? {};
  if (!file) return undefined;
  // Columns of jiti begin at 0.
  return { problem, place: { file, line: Number(line), column: Number(column) + (code ? 1 : 0) } };
}
const toUnreadJson = /^(?<file>\/.+?\.json): (?<problem>.*?)(?: \(line (?<line>\d+) column (?<column>\d+)\))?$/;

/** Converts the reason why a config cannot be served, and adds the place if it came from the user's own code. */
export function withPlace(error: unknown, file: string, root: string): ConfigError {
  if (!(error instanceof UserError)) return toLoadError(error, file, root);
  const { message, hint, cause } = error;
  const known = error instanceof ConfigError ? error.place : undefined;
  const place = known ?? (cause instanceof Error ? placeOf(cause, root) : undefined);
  return new ConfigError(cause instanceof Error ? message + toCauses(cause, message) : message, { hint, cause, place });
}

/** Returns the files that would resolve a missing import, any one of them. Empty if a package is missing. */
export function missingFiles({ cause }: ConfigError): string[] {
  const { name = "", from } = toMissing(cause) ?? {};
  if (from === undefined || !/^[./]/.test(name)) return [];
  const file = resolve(dirname(from), name);
  // `x.js` may refer to `x.ts`.
  return [file, file.replace(/\.([cm]?)js(x?)$/, ".$1ts$2"), ...endings.map((ending) => file + ending)];
}
const endings = ["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs", "json"].flatMap((name) => [
  `.${name}`,
  `/index.${name}`,
]);

/** Returns the innermost place of a stack that is in the user's own code. */
function placeOf(error: Error, root: string): Place | undefined {
  const [place] = placesOf(error, root);
  return place && toSource(place, root);
}

export const showPlace = ({ file, line, column }: Place): string => `${show(file)}:${line}:${column}`;

/** Returns a path relative to the working directory, or the path itself if it is outside. */
export function show(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short || basename(path);
}
