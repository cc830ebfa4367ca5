import manifest from "../../package.json" with { type: "json" };
import type { Agents } from "../agents/agents.ts";
import { agentRoutes } from "../agents/routes.ts";
import { usageRoutes } from "../agents/usage/routes.ts";
import type { Snapshot } from "../config/snapshot.ts";
import { toConsoleHome } from "../console/page.ts";
import { createConsoleFiles } from "../console/assets.ts";
import { consoleRoutes, type ConsoleParts } from "../console/routes.ts";
import type { Engine } from "../engine/contract/engine.ts";
import type { Route } from "../http/route.ts";
import { createTable, type Table } from "../http/table.ts";
import { logSocket } from "../observability/log-socket.ts";
import type { Logs } from "../observability/logs.ts";
import { logRoutes } from "../observability/routes.ts";
import { spanSocket } from "../observability/span-socket.ts";
import type { Traces } from "../observability/tracer.ts";
import type { Problem } from "../pages/problem.ts";
import { docRoute, pageRoutes } from "../pages/routes.ts";
import { echoSocket } from "../sockets/echo.ts";
import type { SocketRoute } from "../sockets/socket.ts";
import type { ScheduleStore } from "../engine/contract/schedules.ts";
import type { UsageStore } from "../engine/contract/usage.ts";
import { scheduleRoutes } from "../schedules/routes.ts";
import { workflowRoutes } from "../workflows/routes.ts";

export type BuiltInRoute = Route<Snapshot> | SocketRoute;

export interface BuiltInRoutesOptions {
  readonly engine: Engine;
  readonly schedules: ScheduleStore;
  readonly usage: UsageStore;
  readonly agents: Agents;
  readonly logs: Logs;
  readonly traces: Traces;
  readonly limits: { readonly socketBufferBytes: number; readonly stepValueBytes: number };
  /** True if responses include details for the author: prompts of model calls, messages of errors. */
  readonly isDev: boolean;
  /** Returns the code at which an attempt has failed. @default no code is shown */
  readonly findFrame?: ((executionId: string, key: string) => string | undefined) | undefined;
  /** Returns the reason why the last saved config is not served. */
  readonly problem: () => Problem | undefined;
  readonly console: Pick<ConsoleParts, "sessions" | "routes">;
}

/** Creates the table of all built-in endpoints, including their OpenAPI document. */
export function createBuiltInRoutes(
  { engine, schedules, usage, agents, logs, traces, limits, isDev, findFrame, problem, console }: BuiltInRoutesOptions,
  more: readonly BuiltInRoute[] = [],
): Table<BuiltInRoute> {
  const { version } = manifest;
  const files = createConsoleFiles();
  const called: readonly BuiltInRoute[] = [
    ...agentRoutes({ agents, isDev }),
    ...usageRoutes({ usage, clock: engine.clock }),
    ...workflowRoutes({ engine, showErrors: isDev, findFrame, stepValueBytes: limits.stepValueBytes }),
    ...scheduleRoutes({ engine, store: schedules }),
    ...logRoutes(logs),
    echoSocket,
    logSocket(logs, limits),
    spanSocket(traces, logs, limits),
    ...consoleRoutes({ ...console, mode: isDev ? "dev" : "start", version, files, problem }),
    ...more,
  ];
  const home = (request: Request, link: string) => toConsoleHome(files, request, link);
  const routes = [...called, ...pageRoutes({ version, routes: called, problem, home })];
  return createTable([...routes, docRoute(routes, version)]);
}
