import manifest from "../../package.json" with { type: "json" };
import type { Snapshot } from "../config/snapshot.ts";
import { docRoute } from "../docs/routes.ts";
import type { Route } from "../http/route.ts";
import { createTable, type Table } from "../http/table.ts";
import { echoSocket } from "../sockets/echo.ts";
import type { SocketRoute } from "../sockets/socket.ts";
import { workflowRoutes, type WorkflowRoutesOptions } from "../workflows/routes.ts";

export type Row = Route<Snapshot> | SocketRoute;

/** Every built-in endpoint, and the document of them all. */
export function createRows(parts: WorkflowRoutesOptions, more: readonly Row[] = []): Table<Row> {
  const rows: readonly Row[] = [...workflowRoutes(parts), echoSocket, ...more];
  return createTable([...rows, docRoute(rows, manifest.version)]);
}
