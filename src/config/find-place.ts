import type { ErrorPlace } from "../observability/terminal/terminal.ts";
import { toFrame } from "./frame.ts";
import { showPlace } from "./load-error.ts";
import { toSource } from "./source-map.ts";
import { placesOf } from "./stack.ts";

/** The most calls of the project's own code that are shown below a frame. */
const mostCalls = 3;
const mostCauses = 4;

/** Creates a function that finds an error of a running project in its code: the error's own place, else that of its cause. */
export function createPlaceFinder(root: string) {
  return function findPlace(error: unknown, columns: number, depth = 0): ErrorPlace | undefined {
    if (!(error instanceof Error)) return undefined;
    const [inner, ...outer] = placesOf(error, root)
      .slice(0, mostCalls + 1)
      .map((place) => toSource(place, root));
    if (!inner) return depth < mostCauses ? findPlace(error.cause, columns, depth + 1) : undefined;
    const calls = outer.map((call) => (call.name ? `${call.name} (${showPlace(call)})` : showPlace(call)));
    return { at: showPlace(inner), frame: toFrame(inner, columns), calls };
  };
}
