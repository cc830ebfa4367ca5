import type { Access, Method, Route } from "../http/route.ts";
import type { SocketRoute } from "../sockets/socket.ts";

export type Json = Record<string, unknown>;
export type AnyRoute = Route<never> | SocketRoute;

/** What the pages and the document need of a snapshot: what there is, and who may call it. */
export interface Catalog {
  readonly agents: ReadonlyMap<string, { readonly detail: AgentEntry }>;
  readonly workflows: ReadonlyMap<string, { readonly detail: WorkflowEntry }>;
  readonly policy: Policy | undefined;
}
export interface AgentEntry {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly model: string;
  readonly tools: readonly { readonly name: string; readonly description: string }[];
}
export interface WorkflowEntry {
  readonly id: string;
  readonly name: string;
  readonly purpose: string;
  readonly steps: readonly StepEntry[];
  readonly inputSchema: Json;
  readonly suspendSchema: Json | null;
  readonly resumeSchema: Json | null;
}
export interface StepEntry {
  readonly name: string;
  readonly type: string;
  readonly suspendSchema?: Json | undefined;
  readonly resumeSchema?: Json | undefined;
  readonly steps?: readonly StepEntry[] | undefined;
}
interface Policy {
  describe(asked: { method: string; path: string; route: AnyRoute; isUpgrade: boolean }): Verdict;
}
/** `except`: what says otherwise for some paths of a pattern. */
interface Verdict {
  readonly access: Access;
  readonly except: readonly string[];
}

/** The route with this pattern; of one agent or workflow, if an id is given. */
interface Place {
  readonly method: Method;
  readonly pattern: string;
  readonly id?: string | undefined;
}
/** Whether a request without a token may be refused here. */
export type NeedsToken = (place: Place) => boolean;

export function toNeedsToken(routes: readonly AnyRoute[], { policy }: Catalog): NeedsToken {
  return ({ method, pattern, id }) => {
    const route = routes.find((one) => one.method === method && one.path === pattern);
    if (!policy || !route) return false;
    const { access, except } = askPolicy(policy, route, id);
    return access === "protected" || except.length > 0;
  };
}

/** Who may call a route; for one agent or workflow, if an id is given. */
export function askPolicy(policy: Policy, route: AnyRoute, id: string | undefined): Verdict {
  const { method, path, type } = route;
  // A colon in an id begins no parameter.
  const asked = toPath(path, id?.replaceAll(":", String.raw`\:`));
  return policy.describe({ method, path: asked, route, isUpgrade: type === "socket" });
}

export const toPath = (pattern: string, id: string | undefined): string =>
  id === undefined ? pattern : pattern.replace(":id", id);

/** What somebody is shown. Undefined stands for a list that is closed to them. */
export interface VisibleEntries {
  readonly agents: readonly AgentEntry[] | undefined;
  readonly workflows: readonly WorkflowEntry[] | undefined;
}

/** A page that is open to all must not tell what `GET /agents` and `GET /workflows` would refuse to tell. */
export function toVisibleEntries(
  { agents, workflows }: Catalog,
  needsToken: NeedsToken,
  isKnown: boolean,
): VisibleEntries {
  const isHidden = (pattern: string, id?: string): boolean => !isKnown && needsToken({ method: "GET", pattern, id });
  function list<E extends { id: string }>(entries: Iterable<{ detail: E }>, pattern: string): E[] | undefined {
    if (isHidden(pattern)) return undefined;
    const details = [...entries].map(({ detail }) => detail);
    return details.filter(({ id }) => !isHidden(`${pattern}/:id`, id));
  }
  return { agents: list(agents.values(), "/agents"), workflows: list(workflows.values(), "/workflows") };
}
