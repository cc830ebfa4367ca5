import { ServeError } from "../core/error.ts";

const mostCharacters = 2_048;
const mostSegments = 64;

/** Refuses a path that is too long to be matched in little time. Called before any router or policy reads the path. */
export function checkPath(path: string): void {
  // A segment has at least its slash, so short paths need no count.
  if (path.length <= mostSegments) return;
  if (path.length > mostCharacters || path.split("/", mostSegments + 2).length - 1 > mostSegments) {
    throw new ServeError(
      414,
      `Path too long: expected at most ${mostCharacters} characters and ${mostSegments} segments`,
    );
  }
}
