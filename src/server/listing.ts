import type { H3 } from "h3";
import type { Policy } from "../auth/policy.ts";
import type { CustomRoute } from "../config/snapshot.ts";
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
  /** The entries of `publicRoutes` or `protect` that make an exception for some of its paths. */
  readonly except: readonly string[];
  readonly from: "agentserve" | "configureApp";
}

export interface ListingParts {
  readonly table: Table<BuiltInRoute>;
  readonly custom: H3;
  readonly policy: Policy | undefined;
  readonly basePath: string | undefined;
}

export function listRoutes({ table, custom, policy, basePath = "" }: ListingParts): ListedRoute[] {
  function list(method: string, path: string, route: BuiltInRoute | undefined): ListedRoute {
    const decision = policy?.describe({ method, path, route, isUpgrade: route?.type === "socket" }) ?? open;
    return { method: method || "ALL", path: toListed(path), ...decision, from: route ? "agentserve" : "configureApp" };
  }
  const toListed = (path: string): string => (basePath !== "" && path === "/" ? basePath : basePath + path);
  return [
    ...table.routes.map((route) => list(route.method, route.path, route)),
    ...listCustomRoutes(custom).map(({ method, path }) => list(method, path, undefined)),
  ];
}

/** Returns the routes of `configureApp` and of the apps that it mounts. */
export function listCustomRoutes(custom: H3): CustomRoute[] {
  return custom["~routes"].map(({ method = "", route = "", meta }) => ({
    method,
    path: route,
    isDocumented: meta?.["doc"] !== false,
  }));
}

const open = { access: "public", why: "no auth provider", except: [] } as const;
