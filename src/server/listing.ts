import type { H3 } from "h3";
import type { Policy } from "../auth/policy.ts";
import type { Access } from "../http/route.ts";
import type { Table } from "../http/table.ts";
import type { Row } from "./built-in-routes.ts";

/** A route, and who may call it. */
export interface ListedRoute {
  /** `ALL` for one that takes every method. */
  readonly method: string;
  readonly path: string;
  readonly access: Access;
  readonly why: string;
  /** The entries of `publicRoutes` or `protect` that say otherwise for some of its paths. */
  readonly except: readonly string[];
  readonly from: "agentserve" | "configureApp";
}

export function listRoutes(table: Table<Row>, custom: H3, policy: Policy | undefined): ListedRoute[] {
  function list(method: string, path: string, row: Row | undefined): ListedRoute {
    const decision = policy?.describe({ method, path, row, isUpgrade: row?.type === "socket" }) ?? open;
    return { method: method || "ALL", path, ...decision, from: row ? "agentserve" : "configureApp" };
  }
  return [
    ...table.rows.map((row) => list(row.method, row.path, row)),
    ...custom["~routes"].map(({ method = "", route = "" }) => list(method, route, undefined)),
  ];
}

const open = { access: "public", why: "no auth provider", except: [] } as const;
