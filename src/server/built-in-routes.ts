import manifest from "../../package.json" with { type: "json" };
import type { Agents } from "../agents/agents.ts";
import { agentRoutes } from "../agents/routes.ts";
import type { Snapshot } from "../config/snapshot.ts";
import type { Problem } from "../pages/problem.ts";
import { docRoute, pageRoutes } from "../pages/routes.ts";
import type { Engine } from "../engine/backend.ts";
import type { Route } from "../http/route.ts";
import { createTable, type Table } from "../http/table.ts";
import type { Logs } from "../observability/logs.ts";
import { logRoutes } from "../observability/routes.ts";
import { logSocket } from "../observability/log-socket.ts";
import { spanSocket } from "../observability/span-socket.ts";
import type { Traces } from "../observability/tracer.ts";
import { echoSocket } from "../sockets/echo.ts";
import type { SocketRoute } from "../sockets/socket.ts";
import { workflowRoutes } from "../workflows/routes.ts";

export type Row = Route<Snapshot> | SocketRoute;

export interface RowParts {
  readonly engine: Engine;
  readonly agents: Agents;
  readonly logs: Logs;
  readonly traces: Traces;
  readonly limits: { readonly socketBufferBytes: number };
  /** Whether answers show what only the author should see. */
  readonly isDev: boolean;
  /** Why the last save is not served. */
  readonly problem?: (() => Problem | undefined) | undefined;
}

/** Every built-in endpoint, and the document of them all. */
export function createRows(
  { engine, agents, logs, traces, limits, isDev, problem }: RowParts,
  more: readonly Row[] = [],
): Table<Row> {
  const called: readonly Row[] = [
    ...agentRoutes({ agents, showInstructions: isDev }),
    ...workflowRoutes({ engine, showErrors: isDev }),
    ...logRoutes(logs),
    echoSocket,
    logSocket(logs, limits),
    spanSocket(traces, logs, limits),
    ...more,
  ];
  const { version } = manifest;
  const rows = [...called, ...pageRoutes({ version, rows: called, problem })];
  return createTable([...rows, docRoute(rows, version)]);
}
