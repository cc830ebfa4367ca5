import { toRoutes } from "../server/create.ts";
import type { ListedRoute } from "../server/listing.ts";
import { colors } from "./colors.ts";
import { leaveProject, openProject } from "./project.ts";

/** Prints every route of a project and its access. */
export async function routes({ config, json }: { config?: string; json?: boolean }): Promise<void> {
  const project = await openProject(config);
  const listed = toRoutes(project);
  process.stdout.write(json ? `${JSON.stringify(listed, null, 2)}\n` : toTable(listed));
  await leaveProject(project);
}

function toTable(listed: readonly ListedRoute[]): string {
  const head = ["method", "path", "access", "why", "added by"];
  const rows = listed.map(({ method, path, access, why, except, from }) => {
    const but = except.length > 0 ? `, except ${except.join(", ")}` : "";
    return [method, path, access, why + but, from];
  });
  const widths = head.map((name, at) => Math.max(name.length, ...rows.map((row) => row[at]!.length)));
  const toLine = (cells: string[]) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at]!))
      .join("  ")
      .trimEnd();
  const lines = rows.map((row) => {
    const line = toLine(row);
    return row[2] === "protected" ? line.replace("protected", colors.green("protected")) : line;
  });
  return [colors.dim(toLine(head)), ...lines, colors.dim(countRoutes(listed)), ""].join("\n");
}

/** Returns a line such as `12 public routes, 9 protected`. */
export function countRoutes(listed: readonly ListedRoute[]): string {
  const closed = listed.filter(({ access }) => access === "protected").length;
  return `${listed.length - closed} public routes, ${closed} protected`;
}
