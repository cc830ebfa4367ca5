import { sep } from "node:path";
import type { Place } from "./error.ts";
import { isOwnFile } from "./own-file.ts";

/** A call of a stack that is in the user's own code. */
export interface StackPlace extends Place {
  /** The function, as the stack names it. */
  readonly name?: string | undefined;
}

const call = /^\s*at (?:async )?(?:(?<name>.+?) \()?(?:file:\/\/)?(?<file>\/.+?):(?<line>\d+):(?<column>\d+)\)?$/gm;

/** Returns the places of an error's stack that are in the user's own code, innermost first. */
export function placesOf(error: Error, root: string): StackPlace[] {
  const places: StackPlace[] = [];
  for (const { groups } of toCalls(error).matchAll(call)) {
    const { name, file = "", line, column } = groups!;
    if (!file.startsWith(root + sep) || !isOwnFile(file, root)) continue;
    places.push({ name, file, line: Number(line), column: Number(column) });
  }
  return places;
}

/** Returns the stack without the message in front of it: its lines may look like calls. */
function toCalls({ stack = "", message }: Error): string {
  const text = String(stack);
  const at = text.indexOf(String(message));
  return at < 0 ? text : text.slice(at + String(message).length);
}
