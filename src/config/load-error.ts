import { basename, relative, sep } from "node:path";
import { ConfigError } from "./error.ts";

/** What went wrong while a user's file was read or ran, with the place in their own code. */
export function toLoadError(error: unknown, file: string, root: string): ConfigError {
  if (!(error instanceof Error)) {
    return new ConfigError(`${show(file)}: threw ${JSON.stringify(error)} while it was loaded`, { cause: error });
  }
  const [, problem, place, column] = /^ParseError: (.*?)\s*\n\s*(.+:\d+):(\d+)\s*$/s.exec(error.message) ?? [];
  if (place) {
    // Its columns begin at 0, those of editors and stacks at 1.
    return new ConfigError(`${show(place)}:${Number(column) + 1}: ${problem}`, { cause: error });
  }
  const [what = ""] = error.message.split("\n");
  if ("requireStack" in error && Array.isArray(error.requireStack)) {
    const missing = /^Cannot find module '(?<name>[^'./][^']*)'/.exec(what)?.groups?.["name"];
    const hint = missing && `npm install ${missing.split("/", missing.startsWith("@") ? 2 : 1).join("/")}`;
    return new ConfigError(`${show(error.requireStack[0] ?? file)}: ${what}`, { hint, cause: error });
  }
  return new ConfigError(`${show(ownFrame(error, root) ?? file)}: ${what}`, { cause: error });
}

/** The innermost `file:line:column` of a stack that is the user's own. */
function ownFrame(error: Error, root: string): string | undefined {
  for (const [, place = ""] of error.stack?.matchAll(/\(?((?:file:\/\/)?\/[^()\n]+:\d+:\d+)\)?$/gm) ?? []) {
    const path = place.replace("file://", "");
    if (path.startsWith(root + sep) && !path.includes(`${sep}node_modules${sep}`)) return path;
  }
  return undefined;
}

/** A path as a person at this terminal would write it. */
export function show(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short || basename(path);
}
