import { sep } from "node:path";

/** Returns true for a file of the project, false for one of a package. The project itself may be in `node_modules`. */
export function isOwnFile(file: string, root: string): boolean {
  return !below(file, root).includes(`${sep}node_modules${sep}`);
}

/** Returns the part of a path below the root, or the whole path if it is outside. */
export const below = (path: string, root: string): string =>
  path.startsWith(root + sep) ? path.slice(root.length) : path;
