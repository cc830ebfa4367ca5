import type { H3 } from "h3";
import type { Policy } from "../auth/policy.ts";
import type { CustomRoute } from "../config/snapshot.ts";
import type { Action } from "../core/access/authorize.ts";
import { needsAuthorize, type Authorizer } from "../core/access/authorizer.ts";
import type { Access } from "../http/route.ts";
import type { Table } from "../http/table.ts";
import type { BuiltInRoute } from "./built-in-routes.ts";

/** A route and its access rule. */
export interface ListedRoute {
  /** `ALL` for a route that matches every method. */
  readonly method: string;
  /** With the base path. */
  readonly path: string;
  readonly access: Access;
  readonly why: string;
  /** The `publicRoutes` or `protect` entries that make an exception for some of its paths. */
  readonly except: readonly string[];
  /** The action that `authorize` is asked about. Undefined if it is never asked about this route. */
  readonly action?: Action | undefined;
  /** The rule for things of another user, whom `?userId=` names. Undefined: the route takes no other user. */
  readonly others?: OthersRule | undefined;
  /** The callers that may use it, among those admitted by `access`. */
  readonly allows: "any caller" | "owner only" | "by authorize" | "closed without authorize";
  /** The ids of workflows and agents with an `authorize` in their own definition, which decides instead. */
  readonly authorizedBy: readonly string[];
  readonly from: "agentserve" | "configureApp";
  /** Set for a route that `start` does not serve. */
  readonly only?: "dev" | undefined;
}

/** The action for `authorize`, and the callers that may do it. */
interface OthersRule {
  readonly action: Action;
  readonly allows: "any caller" | "closed without authorize" | "by authorize";
}

export interface ListingParts {
  readonly table: Table<BuiltInRoute>;
  readonly custom: H3;
  readonly policy: Policy | undefined;
  readonly authorizer: Authorizer | undefined;
  /** True if the provider has `ownership`. */
  readonly ownership: boolean;
  readonly basePath: string | undefined;
  /** The routes that `start` does not serve. */
  readonly devOnly: ReadonlySet<BuiltInRoute>;
}

export function listRoutes(parts: ListingParts): ListedRoute[] {
  const { table, custom, policy, basePath = "", devOnly } = parts;
  function list(method: string, path: string, route: BuiltInRoute | undefined): ListedRoute {
    const decision = policy?.describe({ method, path, route, isUpgrade: route?.type === "socket" }) ?? open;
    const rule = toRule(route?.action, parts);
    const others = route?.type === "route" && route.others ? toOthers(route.others, parts) : undefined;
    const from = route ? "agentserve" : "configureApp";
    const only = route && devOnly.has(route) ? "dev" : undefined;
    return { method: method || "ALL", path: toListed(path), ...decision, ...rule, others, from, only };
  }
  const toListed = (path: string): string => (basePath !== "" && path === "/" ? basePath : basePath + path);
  return [
    ...table.routes.map((route) => list(route.method, route.path, route)),
    ...listCustomRoutes(custom).map(({ method, path }) => list(method, path, undefined)),
  ];
}

function toRule(
  action: Action | undefined,
  { authorizer, ownership, policy }: ListingParts,
): Pick<ListedRoute, "action" | "allows" | "authorizedBy"> {
  const [noun] = action?.split(".") ?? [];
  const isOwned = ownership && (noun === "execution" || noun === "usage");
  const isClosed = action && policy && needsAuthorize(action);
  const undecided = isClosed ? "closed without authorize" : isOwned ? "owner only" : "any caller";
  const allows = action && authorizer?.isGlobal ? "by authorize" : undecided;
  const { workflows = [], agents = [] } = authorizer?.own ?? {};
  const authorizedBy =
    noun === "agent" || noun === "usage"
      ? agents
      : noun === "workflow" || noun === "execution" || noun === "schedule"
        ? workflows
        : [];
  return { action, allows, authorizedBy };
}

/** Without a provider, a request names its own user. With one, another user needs an `authorize`. */
function toOthers(action: Action, { authorizer, policy }: ListingParts): OthersRule {
  const isAsked = authorizer && (authorizer.isGlobal || authorizer.own.agents.length > 0);
  return { action, allows: isAsked ? "by authorize" : policy ? "closed without authorize" : "any caller" };
}

/** Returns the routes of `configureApp`, mounted apps included. */
export function listCustomRoutes(custom: H3): CustomRoute[] {
  return custom["~routes"].map(({ method = "", route = "", meta }) => ({
    method,
    path: route,
    isDocumented: meta?.["doc"] !== false,
  }));
}

const open = { access: "public", why: "no auth provider", except: [] } as const;
