import { issuerOf, type ProviderIssuer } from "../../auth/oidc/provider.ts";
import type { AuthProvider } from "../../auth/provider.ts";
import { colors } from "../colors.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { toRoutes } from "../../server/assemble.ts";
import type { ListedRoute } from "../../server/listing.ts";
import { leaveProject, openProject } from "./open.ts";
import { writeResult } from "../result.ts";
import { toLines } from "../table.ts";

/** Prints every route of a project and its access. */
export async function routes({ config, json }: { config?: string; json?: boolean }): Promise<void> {
  const project = await openProject(config);
  const listed = toRoutes(project);
  writeResult(json ? `${JSON.stringify(listed, null, 2)}\n` : toText(listed, project.config.auth));
  await leaveProject(project);
}

function toText(listed: readonly ListedRoute[], auth: AuthProvider | undefined): string {
  const issuer = issuerOf(auth);
  const hasLink = auth && listed.some(({ path, only }) => only && path.endsWith("/console/api/session"));
  const rows = listed.map((route) => {
    const { method, path, access, why, except, from, only } = route;
    const but = except.length > 0 ? `, except ${except.join(", ")}` : "";
    const rules = [why + but, ...toRules(route), ...(only ? [`only in ${only}`] : [])];
    return [method, path, access, rules.join("; "), from];
  });
  const [head = "", ...lines] = toLines(["method", "path", "access", "why", "added by"], rows);
  const colored = lines.map((line, at) =>
    rows[at]![2] === "protected" ? line.replace("protected", colors.green("protected")) : line,
  );
  const facts = [countRoutes(listed), ...(hasLink ? [consoleFact] : []), ...(issuer ? [toIssuerText(issuer)] : [])];
  return [colors.dim(head), ...colored, ...facts.map((fact) => colors.dim(fact)), ""].join("\n");
}

const consoleFact =
  'in dev on this machine, the link of the console signs in the caller { id: "console" }, who may call every route';

/** Returns a line such as `tokens of https://login.example for my-api`. */
export const toIssuerText = ({ name, audience }: ProviderIssuer): string =>
  toVisible(`tokens of ${name} for ${audience.join(" or ")}`, { max: 500 });

/** Returns the rules after authentication, such as `owner only` and `by authorize of approval`. */
function toRules({ allows, authorizedBy, others }: ListedRoute): string[] {
  const [...shown] = authorizedBy.slice(0, maxShown);
  if (authorizedBy.length > maxShown) shown.push(`${authorizedBy.length - maxShown} more`);
  return [
    ...(shown.length > 0 ? [`by authorize of ${shown.join(", ")}`] : []),
    ...(allows === "any caller" ? [] : [shown.length > 0 ? `others ${allows}` : allows]),
    ...(others && others.allows !== "any caller" ? [`of another user: ${others.allows}`] : []),
  ];
}
/** Max ids of workflows or agents in a line. */
const maxShown = 3;

/** Returns a line such as `12 public routes, 9 protected`. */
export function countRoutes(listed: readonly ListedRoute[]): string {
  const closed = listed.filter(({ access }) => access === "protected").length;
  return `${listed.length - closed} public routes, ${closed} protected`;
}
