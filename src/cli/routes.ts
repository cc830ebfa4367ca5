import { toRoutes } from "../server/assemble.ts";
import type { ListedRoute } from "../server/listing.ts";
import { colors } from "./colors.ts";
import { leaveProject, openProject } from "./project.ts";
import { writeResult } from "./result.ts";
import { toLines } from "./table.ts";

/** Prints every route of a project and its access. */
export async function routes({ config, json }: { config?: string; json?: boolean }): Promise<void> {
  const project = await openProject(config);
  const listed = toRoutes(project);
  writeResult(json ? `${JSON.stringify(listed, null, 2)}\n` : toText(listed));
  await leaveProject(project);
}

function toText(listed: readonly ListedRoute[]): string {
  const rows = listed.map((route) => {
    const { method, path, access, why, except, from } = route;
    const but = except.length > 0 ? `, except ${except.join(", ")}` : "";
    return [method, path, access, [why + but, ...toRules(route)].join("; "), from];
  });
  const [head = "", ...lines] = toLines(["method", "path", "access", "why", "added by"], rows);
  const colored = lines.map((line, at) =>
    rows[at]![2] === "protected" ? line.replace("protected", colors.green("protected")) : line,
  );
  return [colors.dim(head), ...colored, colors.dim(countRoutes(listed)), ""].join("\n");
}

/** Returns the rules after authentication, such as `owner only` and `by authorize of approval`. */
function toRules({ allows, authorizedBy }: ListedRoute): string[] {
  const [...shown] = authorizedBy.slice(0, mostShown);
  if (authorizedBy.length > mostShown) shown.push(`${authorizedBy.length - mostShown} more`);
  return [
    ...(shown.length > 0 ? [`by authorize of ${shown.join(", ")}`] : []),
    ...(allows === "any caller" ? [] : [shown.length > 0 ? `others ${allows}` : allows]),
  ];
}
/** The most ids of workflows or agents in a line. */
const mostShown = 3;

/** Returns a line such as `12 public routes, 9 protected`. */
export function countRoutes(listed: readonly ListedRoute[]): string {
  const closed = listed.filter(({ access }) => access === "protected").length;
  return `${listed.length - closed} public routes, ${closed} protected`;
}
