import type { Route } from "../http/route.ts";
import type { Workflows } from "./find.ts";
import { commandRoutes } from "./routes/command-routes.ts";
import { definitionRoutes } from "./routes/definition-routes.ts";
import { eventRoutes } from "./routes/event-routes.ts";
import { executionsRoutes } from "./routes/executions-routes.ts";
import type { WorkflowRoutesOptions } from "./routes/replies.ts";
import { readRoutes } from "./routes/read-routes.ts";
import { repairRoutes } from "./routes/repair-routes.ts";
import { startRoutes } from "./routes/start-routes.ts";
import { stepRoutes } from "./routes/step-routes.ts";

export function workflowRoutes(options: WorkflowRoutesOptions): readonly Route<Workflows>[] {
  const all = [definitionRoutes, startRoutes, commandRoutes, repairRoutes, readRoutes, stepRoutes];
  return [...all, executionsRoutes, eventRoutes].flatMap((toRoutes) => toRoutes(options));
}
