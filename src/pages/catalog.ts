import type { CorsOptions } from "../http/cors.ts";
import type { Access, Method, Route } from "../http/route.ts";
import type { SocketRoute } from "../sockets/socket.ts";

export type Json = Record<string, unknown>;
export type AnyRoute = Route<never> | SocketRoute;

/** The part of a snapshot that the pages and the document read: the entries, and the access policy. */
export interface Catalog {
  readonly agents: ReadonlyMap<string, { readonly detail: AgentEntry }>;
  readonly workflows: ReadonlyMap<string, { readonly detail: WorkflowEntry; readonly resultSchema?: Json | undefined }>;
  readonly policy: Policy | undefined;
  /** Undefined if there is no `authorize`. */
  readonly authorizer: object | undefined;
  readonly config: {
    readonly auth?: { readonly extractToken?: unknown } | undefined;
    readonly server: {
      readonly cors?: CorsOptions | false | undefined;
      readonly rateLimit?: object | undefined;
      readonly basePath?: string | undefined;
      readonly trustedProxies: readonly string[];
    };
  };
  /** The built-in routes that are not served, such as `GET /health`. */
  readonly replaced: ReadonlySet<string>;
  readonly customRoutes: readonly CustomRoute[];
}
/** A route of `configureApp`. */
export interface CustomRoute {
  /** Empty for a route that matches every method. */
  readonly method: string;
  /** The pattern, as h3 has it. */
  readonly path: string;
  /** False if the author keeps the route out of the document. */
  readonly isDocumented: boolean;
}
export interface AgentEntry {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly model: string;
  /** Null before a function has returned them. */
  readonly tools: readonly { readonly name: string; readonly description: string }[] | null;
}
export interface WorkflowEntry {
  readonly id: string;
  readonly name: string;
  readonly purpose: string;
  readonly steps: readonly StepEntry[];
  readonly inputSchema: Json;
  readonly suspendSchema: Json | null;
  readonly resumeSchema: Json | null;
  /** Not part of `GET /workflows/:id`. */
  readonly resultSchema?: Json | undefined;
}
export interface StepEntry {
  readonly name: string;
  readonly type: string;
  readonly suspendSchema?: Json | undefined;
  readonly resumeSchema?: Json | undefined;
  readonly steps?: readonly StepEntry[] | undefined;
}
interface Policy {
  describe(asked: { method: string; path: string; route: AnyRoute | undefined; isUpgrade: boolean }): Verdict;
}
/** The access of a pattern. `except` lists the rules that decide otherwise for some of its paths. */
export interface Verdict {
  readonly access: Access;
  readonly except: readonly string[];
}

/** A route, by its pattern. With an id, the route of one agent or workflow. */
interface Place {
  readonly method: Method;
  readonly pattern: string;
  readonly id?: string | undefined;
}
/** Returns true if a request without a token may be rejected. */
export type NeedsToken = (place: Place) => boolean;

export function toNeedsToken(routes: readonly AnyRoute[], { policy }: Catalog): NeedsToken {
  return ({ method, pattern, id }) => {
    const route = routes.find((one) => one.method === method && one.path === pattern);
    if (!policy || !route) return false;
    return mayRefuse(askPolicy(policy, route, id));
  };
}

/** Returns true if the policy refuses some requests without a token. */
export const mayRefuse = ({ access, except }: Verdict): boolean => access === "protected" || except.length > 0;

/** Returns the access of a route. With an id, for one agent or workflow. */
export function askPolicy(policy: Policy, route: AnyRoute, id: string | undefined): Verdict {
  const { method, path, type } = route;
  // A colon in an id does not start a parameter.
  const asked = toPath(path, id?.replaceAll(":", String.raw`\:`));
  return policy.describe({ method, path: asked, route, isUpgrade: type === "socket" });
}

/** Returns the access of a custom route. */
export const askCustomPolicy = (policy: Policy, { method, path }: CustomRoute): Verdict =>
  policy.describe({ method, path, route: undefined, isUpgrade: false });

export const toPath = (pattern: string, id: string | undefined): string =>
  id === undefined ? pattern : pattern.replace(":id", id);

/** The entries that a caller may see. A list is undefined if it is hidden from the caller. */
export interface VisibleEntries {
  readonly agents: readonly AgentEntry[] | undefined;
  readonly workflows: readonly WorkflowEntry[] | undefined;
}

/** Returns the entries for a page. A public page must not show what `GET /agents` and `GET /workflows` hide. */
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

/** Returns the custom routes for the document. Without a token, only those that need none are shown. */
export function toVisibleRoutes({ customRoutes, policy }: Catalog, isKnown: boolean): readonly CustomRoute[] {
  const documented = customRoutes.filter(({ isDocumented }) => isDocumented);
  if (isKnown || !policy) return documented;
  return documented.filter((route) => !mayRefuse(askCustomPolicy(policy, route)));
}
