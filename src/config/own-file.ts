import { sep } from "node:path";

/** Whether a file is a project's own, not that of a package. The project itself may stand anywhere, in `node_modules`, too. */
export function isOwnFile(file: string, root: string): boolean {
  return !below(file, root).includes(`${sep}node_modules${sep}`);
}

/** The part of a path that the project is answerable for: all of it, where it leads elsewhere. */
export const below = (path: string, root: string): string =>
  path.startsWith(root + sep) ? path.slice(root.length) : path;
