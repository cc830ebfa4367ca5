import { ServeError } from "../core/error.ts";

const maxCharacters = 2_048;
const maxSegments = 64;

/** Refuses a path that is too long to be matched in little time. Called before any router or policy reads the path. */
export function checkPath(path: string): void {
  // A segment has at least its slash, so short paths need no count.
  if (path.length <= maxSegments) return;
  if (path.length > maxCharacters || path.split("/", maxSegments + 2).length - 1 > maxSegments) {
    throw new ServeError(
      414,
      `Path too long: expected at most ${maxCharacters} characters and ${maxSegments} segments`,
    );
  }
}
