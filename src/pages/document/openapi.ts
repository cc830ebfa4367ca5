import { toPath, type AgentEntry, type AnyRoute, type Catalog } from "../catalog.ts";
import type { CustomRoute, Json, WorkflowEntry } from "../catalog.ts";
import { Components } from "./components.ts";
import { toMethods, toTemplate } from "./custom-routes.ts";
import { tags } from "./labels.ts";
import { Operations } from "./operations.ts";
import { toAgentOperation, toWorkflowOperations } from "./own-operations.ts";

export interface OpenApi extends Json {
  openapi: string;
  paths: Record<string, Json>;
  components: { schemas: Record<string, Json>; responses: Record<string, Json>; securitySchemes: Json };
}
export interface DocumentParts {
  readonly version: string;
  readonly policy: Catalog["policy"];
  /** The workflows that get operations with their own schemas. */
  readonly workflows: readonly WorkflowEntry[];
  /** The agents that get an operation. */
  readonly agents: readonly AgentEntry[];
  /** The routes of `configureApp` that are listed. */
  readonly customRoutes: readonly CustomRoute[];
  /** True if the server has a rate limit. */
  readonly isLimited: boolean;
  /** True if requests that may change data can be refused for their origin. */
  readonly refusesOrigins: boolean;
  /** True if the project has an `authorize`. */
  readonly isAuthorized: boolean;
}

/** Creates the OpenAPI 3.1 document. The routes are its only source. */
export function toOpenApi(routes: readonly AnyRoute[], parts: DocumentParts): OpenApi {
  const { version, policy, workflows, agents, customRoutes } = parts;
  const components = new Components();
  const operations = new Operations(components, parts);
  const paths: Record<string, Json> = {};
  const pathsByShape = new Map<string, string>();
  const used = new Set<string>();

  for (const route of routes) add(toOpenPath(route.path), route.method, operations.toBuiltIn(route));
  for (const own of [...workflows.flatMap(toWorkflowOperations), ...agents.map(toAgentOperation)]) {
    const route = routes.find(({ method, path }) => method === own.method && path === own.pattern);
    if (route?.type === "route")
      add(toOpenPath(toPath(route.path, own.id)), route.method, operations.toOwn(route, own));
  }
  for (const route of customRoutes) {
    const template = toTemplate(route.path);
    if (!template) continue;
    for (const method of toMethods(route)) {
      const path = findPath(template.path);
      if (!paths[path]?.[method]) add(path, method, operations.toCustom(route, method, path, template));
    }
  }
  return {
    openapi: "3.1.0",
    info: { title: "agentserve", version, description: "Agents and workflows, served by agentserve." },
    security: [],
    tags: tags.filter(({ name }) => used.has(name)),
    paths,
    components: {
      schemas: components.schemas,
      responses: components.responses,
      securitySchemes: policy ? { bearer: { type: "http", scheme: "bearer" } } : {},
    },
  };

  function add(path: string, method: string, operation: Json): void {
    (paths[findPath(path)] ??= {})[method.toLowerCase()] = operation;
    for (const tag of operation["tags"] as string[]) used.add(tag);
  }

  /** Two paths that differ only in the names of their parameters are the same path. The first one has the names. */
  function findPath(path: string): string {
    const shape = path.replace(/\{\w+\}/g, "{}");
    const known = pathsByShape.get(shape) ?? path;
    pathsByShape.set(shape, known);
    return known;
  }
}

const toOpenPath = (pattern: string): string => pattern.replace(/\/:(\w+)/g, "/{$1}");
