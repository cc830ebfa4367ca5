import type { ErrorPlace } from "../observability/terminal/terminal.ts";
import { toFrame } from "./frame.ts";
import { showPlace } from "./load-error.ts";
import { toSource } from "./source-map.ts";
import { placesOf, type StackPlace } from "./stack.ts";

/** Max calls of the project's own code that are shown below a frame. */
const maxCalls = 3;
const maxCauses = 4;

/** Creates a function that finds the place of an error in the project's code: its own, or else the place of its cause. */
export function createPlaceFinder(root: string) {
  return function findPlace(error: unknown, columns: number): ErrorPlace | undefined {
    const [inner, ...outer] = findCalls(error, root, maxCalls + 1);
    if (!inner) return undefined;
    const calls = outer.map((call) => (call.name ? `${call.name} (${showPlace(call)})` : showPlace(call)));
    return { at: showPlace(inner), frame: toFrame(inner, columns), calls };
  };
}

/** Returns the places of an error in the project's own code, innermost first, or else the places of its cause. */
export function findCalls(error: unknown, root: string, max: number, depth = 0): StackPlace[] {
  if (!(error instanceof Error)) return [];
  const places = placesOf(error, root).slice(0, max);
  if (places.length > 0) return places.map((place) => toSource(place, root));
  return depth < maxCauses ? findCalls(error.cause, root, max, depth + 1) : [];
}
