import { toJsonSchema } from "@valibot/to-json-schema";
import { getTitle, type GenericSchema } from "valibot";
import type { Access, Media, Route } from "../http/route.ts";
import type { SocketRoute } from "../sockets/socket.ts";

export type Json = Record<string, unknown>;
export interface OpenApi extends Json {
  openapi: string;
  paths: Record<string, Json>;
  components: { schemas: Record<string, Json>; securitySchemes: Json };
}
export type Row = Route<never> | SocketRoute;
/** What the document needs of a snapshot: who may call what. */
export interface Secured {
  readonly policy:
    | {
        describe(asked: { method: string; path: string; row: Row; isUpgrade: boolean }): {
          readonly access: Access;
          readonly except: readonly string[];
        };
      }
    | undefined;
}
type Side = "input" | "output";

/** OpenAPI 3.1 from the rows: what is not in a row is not in the document. */
export function toOpenApi(rows: readonly Row[], version: string, { policy }: Secured): OpenApi {
  const schemas: Record<string, Json> = { Error: errorSchema };
  const paths: Record<string, Json> = {};
  for (const row of rows) {
    const path = row.path.replace(/:(\w+)/g, "{$1}");
    (paths[path] ??= {})[row.method.toLowerCase()] = row.type === "route" ? toOperation(row) : toSocketOperation(row);
  }
  return {
    openapi: "3.1.0",
    info: { title: "agentserve", version },
    paths,
    components: { schemas, securitySchemes: policy ? { bearer: { type: "http", scheme: "bearer" } } : {} },
  };

  function toOperation(row: Route<never>): Json {
    const params = [...row.path.matchAll(/:(\w+)/g)].map(([, name]) => name);
    const responses: Json = {};
    for (const [status, response] of Object.entries(row.responses)) responses[status] = toResponse(response);
    const secured = toSecurity(row);
    const errors = { ...errorsOfKit(row, params.length > 0), ...row.errors, ...secured.errors };
    for (const [status, description] of Object.entries<string>(errors)) responses[status] = toError(description);
    return {
      summary: row.summary,
      ...secured.security,
      parameters: [
        ...params.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
        ...toParameters(row.query),
      ],
      ...(row.body && { requestBody: { content: { "application/json": { schema: convert(row.body, "input") } } } }),
      responses,
    };
  }

  function toSocketOperation(row: SocketRoute): Json {
    const { security, errors } = toSecurity(row);
    const responses: Json = {
      101: { description: "WebSocket" },
      400: toError("The handshake or a filter is malformed"),
      403: toError("The origin is not allowed"),
      426: toError("This is a WebSocket"),
      503: toError("Too many sockets"),
    };
    for (const [status, description] of Object.entries(errors)) responses[status] = toError(description);
    return { summary: row.summary, ...security, parameters: toParameters(row.query), responses };
  }

  /** Where there is a provider, a token is needed or at least looked at. */
  function toSecurity(row: Row): { security?: Json; errors: Record<string, string> } {
    if (!policy) return { errors: {} };
    const { method, path } = row;
    const { access, except } = policy.describe({ method, path, row, isUpgrade: row.type === "socket" });
    const isNeeded = access === "protected" && except.length === 0;
    const security = { security: isNeeded ? [bearer] : [{}, bearer] };
    const mayRefuse = access === "protected" || except.length > 0;
    return { security, errors: mayRefuse ? refusals : {} };
  }

  function toResponse(response: GenericSchema | Media): Json {
    if ("media" in response) {
      const schema = response.schema ? convert(response.schema, "output") : {};
      return { description: "OK", content: { [response.media]: { schema } } };
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

  /** A schema that refers to itself needs a name: its `v.title()`. A `$ref` in here is resolved from the document's root. */
  function convert(schema: GenericSchema, side: Side): Json {
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
        if (title === undefined) throw new Error("/doc: a schema that refers to itself needs a v.title()");
        titles.set(referenceId, title);
        return `#/components/schemas/${title}`;
      },
    });
    for (const [id, definition] of Object.entries($defs)) {
      const title = titles.get(id) ?? id;
      const known = JSON.stringify(schemas[title] ?? definition);
      if (known !== JSON.stringify(definition)) throw new Error(`/doc: two schemas are called ${title}`);
      schemas[title] = definition as Json;
    }
    return json as Json;
  }
}

const bearer = { bearer: [] };
const refusals = {
  401: "There is no token, or it is no good",
  default: "The authentication provider has refused the caller in its own way",
};

const errorSchema = {
  type: "object",
  properties: { success: { const: false }, error: { type: "string" } },
  required: ["success", "error"],
};

function toError(description: string): Json {
  return { description, content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } } };
}

/** What the kit answers before or instead of the handler. */
function errorsOfKit(row: Route<never>, hasParams: boolean): Record<string, string> {
  const streams = Object.values(row.responses).some((response) => "media" in response && response.media === sse);
  const errors: Record<string, string> = { 500: "Something failed on the server" };
  if (row.body || row.query || hasParams) errors["400"] = "The request is malformed";
  if (row.body) Object.assign(errors, { 413: "The body is too large", 415: "The body is not JSON" });
  if (streams) errors["503"] = "Too many open streams";
  return errors;
}
const sse = "text/event-stream";
