import { toJsonSchema } from "@valibot/to-json-schema";
import { getTitle, type GenericSchema } from "valibot";
import type { Media, Route } from "../http/route.ts";
import type { SocketRoute } from "../sockets/socket.ts";
import { adoptSchema } from "./adopt-schema.ts";
import { askPolicy, toPath, type Catalog, type Json, type AnyRoute, type WorkflowEntry } from "./catalog.ts";
import { toExample } from "./example.ts";
import { ownTag, tags, toLabels } from "./labels.ts";
import { toOwnOperations, type OwnOperation } from "./own-operations.ts";

export interface OpenApi extends Json {
  openapi: string;
  paths: Record<string, Json>;
  components: { schemas: Record<string, Json>; securitySchemes: Json };
}
export interface DocumentParts {
  readonly version: string;
  readonly policy: Catalog["policy"];
  /** The workflows that get operations with their own schemas. */
  readonly workflows: readonly WorkflowEntry[];
  /** True if the server has a rate limit. */
  readonly isLimited: boolean;
  /** True if requests that may change data can be refused for their origin. */
  readonly refusesOrigins: boolean;
}
type Side = "input" | "output";

/** Creates the OpenAPI 3.1 document. The routes are its only source. */
export function toOpenApi(
  routes: readonly AnyRoute[],
  { version, policy, workflows, isLimited, refusesOrigins }: DocumentParts,
): OpenApi {
  const schemas: Record<string, Json> = { Error: errorSchema };
  const paths: Record<string, Json> = {};
  const used = new Set<string>();
  const limited: Record<string, string> = isLimited
    ? { 429: "Too many requests; Retry-After has the seconds to wait" }
    : {};
  const converted = { input: new Map<GenericSchema, Json>(), output: new Map<GenericSchema, Json>() };
  function add(path: string, method: string, operation: Json): void {
    (paths[path.replace(/\/:(\w+)/g, "/{$1}")] ??= {})[method.toLowerCase()] = operation;
    for (const tag of operation["tags"] as string[]) used.add(tag);
  }
  for (const route of routes)
    add(route.path, route.method, route.type === "route" ? toOperation(route) : toSocketOperation(route));
  for (const own of workflows.flatMap(toOwnOperations)) {
    const route = routes.find(({ method, path }) => method === own.method && path === own.pattern);
    if (route?.type === "route") add(toPath(route.path, own.id), route.method, toOwnOperation(route, own));
  }
  return {
    openapi: "3.1.0",
    info: { title: "agentserve", version },
    tags: tags.filter(({ name }) => used.has(name)),
    paths,
    components: { schemas, securitySchemes: policy ? { bearer: { type: "http", scheme: "bearer" } } : {} },
  };

  function toOperation(route: Route<never>, id?: string): Json {
    const params = [...toPath(route.path, id).matchAll(/\/:(\w+)/g)].map(([, name]) => name);
    const responses: Json = {};
    for (const [status, response] of Object.entries(route.responses)) responses[status] = toResponse(response);
    const secured = toSecurity(route, id);
    const foreign: Record<string, string> = refusesOrigins && route.method !== "GET" ? { 403: originRefusal } : {};
    const kit = errorsOfKit(route, params.length > 0);
    const errors = { ...kit, ...foreign, ...route.errors, ...limited, ...secured.errors };
    for (const [status, description] of Object.entries<string>(errors)) responses[status] = toError(description);
    return {
      ...toLabels(route),
      summary: route.summary,
      ...secured.security,
      parameters: [
        ...params.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
        ...toParameters(route.query),
      ],
      ...(route.body && { requestBody: { content: { "application/json": { schema: convert(route.body, "input") } } } }),
      responses,
    };
  }

  /** Returns the operation of a route for one workflow. */
  function toOwnOperation(route: Route<never>, own: OwnOperation): Json {
    const { property, operationId, summary, description } = own;
    const kinds = own.schemas.map((schema) => adopt(schema, `workflow.${own.id}.${property}`));
    const schema = kinds.length === 1 ? kinds[0]! : { anyOf: kinds };
    const body = route.body && convert(route.body, "input");
    const properties = { ...(body?.["properties"] as Json), [property]: schema };
    const json = {
      schema: { ...body, properties, required: property === "input" ? [property] : [] },
      example: { [property]: toExample(own.schemas[0]!) },
    };
    const requestBody = { required: true, content: { "application/json": json } };
    const operation = toOperation(route, own.id);
    const responses = shareSchemas(operation["responses"] as Json, toLabels(route).operationId);
    return { ...operation, operationId, tags: [ownTag], summary, description, requestBody, responses };
  }

  /** Moves response schemas that all workflows share to `components`. */
  function shareSchemas(responses: Json, name: string): Json {
    const shared = Object.entries(responses as Record<string, { content: Json }>).map(([status, response]) => {
      const content = Object.entries(response.content as Record<string, { schema: Json }>).map(
        ([media, { schema }]) => {
          if ("$ref" in schema) return [media, { schema }];
          schemas[`${name}.${status}`] ??= schema;
          return [media, { schema: { $ref: `#/components/schemas/${name}.${status}` } }];
        },
      );
      return [status, { ...response, content: Object.fromEntries(content) }];
    });
    return Object.fromEntries(shared);
  }

  /** Adds a schema to `components` under a unique name. */
  function adopt(schema: Json, wanted: string): Json {
    const base = wanted.replace(/[^\w.-]/g, "_"); // the characters that OpenAPI allows
    let name = base;
    for (let n = 2; name in schemas; n++) name = `${base}.${n}`;
    const place = `#/components/schemas/${name}`;
    schemas[name] = adoptSchema(schema, place);
    return { $ref: place };
  }

  function toSocketOperation(route: SocketRoute): Json {
    const { security, errors } = toSecurity(route);
    const responses: Json = {
      101: { description: "WebSocket" },
      400: toError("The handshake or a filter is malformed"),
      403: toError(originRefusal),
      426: toError("Upgrade required"),
      503: toError("Too many sockets"),
    };
    for (const [status, description] of Object.entries({ ...limited, ...errors }))
      responses[status] = toError(description);
    return {
      ...toLabels(route),
      summary: route.summary,
      ...security,
      parameters: toParameters(route.query),
      responses,
    };
  }

  /** With an authentication provider, a token is required, or optional where the route is public. */
  function toSecurity(route: AnyRoute, id?: string): { security?: Json; errors: Record<string, string> } {
    if (!policy) return { errors: {} };
    const { access, except } = askPolicy(policy, route, id);
    const isNeeded = access === "protected" && except.length === 0;
    const security = { security: isNeeded ? [bearer] : [{}, bearer] };
    const mayRefuse = access === "protected" || except.length > 0;
    return { security, errors: mayRefuse ? refusals : {} };
  }

  function toResponse(response: GenericSchema | Media): Json {
    if ("media" in response) {
      const own = response.schema && convert(response.schema, "output");
      const content = Object.fromEntries(
        response.media.split(", ").map((media) => [media, { schema: own ?? (media.startsWith("text/") ? text : {}) }]),
      );
      return { description: "OK", content };
    }
    const schema = {
      type: "object",
      properties: { success: { const: true }, data: convert(response, "output") },
      required: ["success", "data"],
    };
    return { description: "OK", content: { "application/json": { schema } } };
  }

  function toParameters(query: GenericSchema | undefined): Json[] {
    if (!query) return [];
    const { properties = {}, required = [] } = convert(query, "input") as { properties?: Json; required?: string[] };
    return Object.entries(properties).map(([name, schema]) => {
      return { name, in: "query", required: required.includes(name), schema };
    });
  }

  /** Converts each schema only once. Schemas that all workflows share would otherwise be converted for each of them. */
  function convert(schema: GenericSchema, side: Side): Json {
    const known = converted[side].get(schema) ?? toJson(schema, side);
    converted[side].set(schema, known);
    return known;
  }

  /**
   * Converts a schema. A recursive schema needs a name, which is its `v.title()`. Its `$ref` resolves from the root of
   * the document.
   */
  function toJson(schema: GenericSchema, side: Side): Json {
    const titles = new Map<string, string>();
    const {
      $schema: _,
      $defs = {},
      ...json
    } = toJsonSchema(schema, {
      target: "draft-2020-12",
      typeMode: side,
      errorMode: "ignore",
      overrideRef({ referenceId, valibotSchema }) {
        const title = getTitle(valibotSchema as GenericSchema);
        if (title === undefined) throw new Error("/doc: a recursive schema needs a v.title()");
        titles.set(referenceId, title);
        return `#/components/schemas/${title}`;
      },
    });
    for (const [id, definition] of Object.entries($defs)) {
      const title = titles.get(id) ?? id;
      const known = JSON.stringify(schemas[title] ?? definition);
      if (known !== JSON.stringify(definition)) throw new Error(`/doc: two schemas have the title ${title}`);
      schemas[title] = definition as Json;
    }
    return json as Json;
  }
}

const text = { type: "string" };
const bearer = { bearer: [] };
const originRefusal = "The origin is not allowed";
const refusals = {
  401: "The token is missing or invalid",
  default: "The authentication provider rejected the request with a status of its choice",
};

const errorSchema = {
  type: "object",
  properties: { success: { const: false }, error: { type: "string" } },
  required: ["success", "error"],
};

function toError(description: string): Json {
  return { description, content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } } };
}

/** Returns the errors that are sent before the handler runs or in place of its response. */
function errorsOfKit(route: Route<never>, hasParams: boolean): Record<string, string> {
  const streams = Object.values(route.responses).some((response) => "media" in response && response.media === sse);
  const errors: Record<string, string> = { 500: "Internal server error" };
  if (route.body || route.query || hasParams) errors["400"] = "The request is invalid";
  if (route.body) Object.assign(errors, { 413: "The body is too large", 415: "The body is not JSON" });
  if (route.path.includes("/:")) errors["414"] = "The path is too long";
  if (route.body) errors["503"] = "Too much data is in flight";
  if (streams) errors["503"] = "Too many open streams";
  return errors;
}
const sse = "text/event-stream";
