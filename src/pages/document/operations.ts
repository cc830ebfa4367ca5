import type { GenericSchema } from "valibot";
import { needsAuthorize } from "../../core/authorizer.ts";
import type { Media, Route } from "../../http/route.ts";
import type { SocketRoute } from "../../sockets/socket.ts";
import { askCustomPolicy, askPolicy, mayRefuse, toPath, type AnyRoute, type Catalog } from "../catalog.ts";
import type { CustomRoute, Json, Verdict } from "../catalog.ts";
import type { Components } from "./components.ts";
import type { PathTemplate } from "./custom-routes.ts";
import { ownTags, toLabels, toOperationId } from "./labels.ts";
import { createNames, toPascalCase } from "./names.ts";
import type { OwnBody, OwnOperation } from "./own-operations.ts";

export interface OperationsOptions {
  readonly policy: Catalog["policy"];
  readonly isLimited: boolean;
  readonly refusesOrigins: boolean;
  readonly isAuthorized: boolean;
}
/** Makes the operations of a document. Each has an id that is unique in the document. */
export interface Operations {
  toBuiltIn(route: AnyRoute): Json;
  /** Returns the operation of a route for one workflow or agent. */
  toOwn(route: Route<never>, own: OwnOperation): Json;
  toCustom(route: CustomRoute, method: string, path: string, template: PathTemplate): Json;
}

export function createOperations(components: Components, options: OperationsOptions): Operations {
  const { policy, isLimited, refusesOrigins, isAuthorized } = options;
  const toUniqueId = createNames("-");
  const ownResponses = new Map<Json, Json>(); // by the schema of the result: execute and resume answer the same
  const limited: Errors = isLimited ? { 429: "Too many requests; Retry-After has the seconds to wait" } : {};
  return {
    toBuiltIn(route) {
      const { operationId, tags } = toLabels(route);
      const { summary, description } = route;
      const labels = { operationId: toUniqueId(operationId), tags, summary, description };
      return { ...labels, ...(route.type === "route" ? toRoute(route) : toSocket(route)) };
    },
    toOwn(route, own) {
      const { id, tag, summary, description, example, body, result } = own;
      const name = `Workflow${toPascalCase(id)}`;
      const operation = toRoute(route, id);
      const responses = operation["responses"] as Json;
      return {
        ...operation,
        operationId: toUniqueId(own.operationId),
        tags: [tag],
        summary,
        description: description || (route.description ?? route.summary),
        requestBody: toJsonBody(body ? toOwnBody(route, body, name) : toBody(route), example),
        responses:
          result && Object.keys(result).length > 0
            ? { ...responses, 200: toOwnResponse(route, result, name) }
            : responses,
      };
    },
    toCustom,
  };

  function toRoute(route: Route<never>, id?: string): Json {
    const params = [...toPath(route.path, id).matchAll(/\/:(\w+)/g)].map(([, name]) => name!);
    const responses: Json = {};
    for (const [status, response] of Object.entries(route.responses)) responses[status] = toResponse(response);
    const { security, errors } = toSecurity(policy && askPolicy(policy, route, id));
    const all = {
      ...errorsOfKit(route),
      ...toForbidden(route, refusesOrigins && route.method !== "GET"),
      ...route.errors,
      ...limited,
      ...errors,
    };
    return {
      ...security,
      parameters: [
        ...params.map((name) => toPathParameter(name)),
        ...toQueryParameters(route.query),
        ...toHeaderParameters(route.headers),
      ],
      ...(route.body && { requestBody: toJsonBody(toBody(route)) }),
      responses: { ...responses, ...toErrors(all) },
    };
  }

  function toForbidden(route: AnyRoute, refusesOrigin: boolean): Errors {
    const { action } = route;
    const isClosed = action !== undefined && needsAuthorize(action);
    const takesOthers = route.type === "route" && route.others !== undefined;
    const refusesCaller = (isAuthorized && action !== undefined) || (policy !== undefined && (isClosed || takesOthers));
    if (refusesCaller) return { 403: refusesOrigin ? "The origin or the caller is not allowed" : callerRefusal };
    return refusesOrigin ? { 403: originRefusal } : {};
  }

  function toBody({ body }: Route<never>): Json {
    return body ? components.convert(body, "input") : {};
  }

  /** Returns the body of a route with the author's schema in the place of one property. */
  function toOwnBody(route: Route<never>, { property, isRequired, schemas }: OwnBody, name: string): Json {
    const wanted = name + (property === "input" ? "Input" : "Resume");
    const kinds = schemas.map((schema) => components.adopt(schema, wanted));
    const body = components.resolve(toBody(route));
    const schema = kinds.length === 1 ? kinds[0]! : { anyOf: kinds };
    const properties = { ...(body["properties"] as Json), [property]: schema };
    return { ...body, properties, ...(isRequired && { required: [property] }) };
  }

  /** Returns the response of a route with the author's schema as `result`. It is null until the execution ends. */
  function toOwnResponse(route: Route<never>, result: Json, name: string): Json {
    const known = ownResponses.get(result);
    if (known) return known;
    const shape = components.resolve(components.convert(route.responses[200] as GenericSchema, "output"));
    const schema = { anyOf: [components.adopt(result, `${name}Result`), { type: "null" }] };
    const properties = { ...(shape["properties"] as Json), result: schema };
    const made = toSuccess(components.add({ ...shape, properties }, `${name}Execution`));
    ownResponses.set(result, made);
    return made;
  }

  function toSocket(route: SocketRoute): Json {
    const { security, errors } = toSecurity(policy && askPolicy(policy, route, undefined));
    const all = { ...socketErrors, ...toForbidden(route, true), ...limited, ...errors };
    const responses = { 101: { description: "WebSocket" }, ...toErrors(all) };
    return { ...security, parameters: toQueryParameters(route.query), responses };
  }

  /** A route of `configureApp`. Its body and its responses are known only to its handler. */
  function toCustom(route: CustomRoute, method: string, path: string, { params }: PathTemplate): Json {
    const { security, errors } = toSecurity(policy && askCustomPolicy(policy, route));
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
    const foreign: Errors = refusesOrigins && !readMethods.has(method) ? { 403: originRefusal } : {};
    const all = { ...customErrors, ...foreign, ...limited, ...errors };
    return {
      operationId: toUniqueId(toOperationId(method, route.path)),
      tags: [ownTags.routes],
      summary: `${method.toUpperCase()} ${route.path}`,
      description: "A route of `configureApp`. Its body and its responses are not described.",
      ...security,
      parameters: names.map((name, index) => toPathParameter(name, params[index]?.isRest)),
      ...(bodyMethods.has(method) && { requestBody: { content: { "application/json": { schema: {} } } } }),
      responses: { 200: customResponse, ...toErrors(all) },
    };
  }

  function toResponse(response: GenericSchema | Media): Json {
    if (!("media" in response)) return toSuccess(components.convert(response, "output"));
    if (response.media === "") return { description: "Nothing to send" };
    const own = response.schema && components.convert(response.schema, "output");
    const content = Object.fromEntries(
      response.media.split(", ").map((media) => [media, { schema: own ?? (media.startsWith("text/") ? text : {}) }]),
    );
    return { description: "OK", content };
  }

  function toErrors(errors: Errors): Json {
    return Object.fromEntries(
      Object.entries(errors).map(([status, text]) => [status, components.toError(status, text)]),
    );
  }

  function toQueryParameters(query: GenericSchema | undefined): Json[] {
    if (!query) return [];
    const { properties = {}, required = [] } = components.convert(query, "output") as {
      properties?: Record<string, Json>;
      required?: string[];
    };
    return Object.entries(properties).map(([name, schema]) =>
      toParameter("query", name, schema, required.includes(name)),
    );
  }

  function toHeaderParameters(headers: Route<never>["headers"] = {}): Json[] {
    return Object.entries(headers).map(([name, schema]) =>
      toParameter("header", name, components.convert(schema, "output"), false),
    );
  }
}

type Errors = Readonly<Record<string, string>>;

/** With an authentication provider, a token is required, or optional where the route is public. */
function toSecurity(verdict: Verdict | undefined): { security?: Json; errors: Errors } {
  if (!verdict) return { errors: {} };
  const isNeeded = verdict.access === "protected" && verdict.except.length === 0;
  const security = { security: isNeeded ? [bearer] : [{}, bearer] };
  return { security, errors: mayRefuse(verdict) ? refusals : {} };
}

// A number is text in a URL and in a header. Its schema is the one of the number: the output of the route's schema.
function toParameter(place: string, name: string, { description, ...schema }: Json, required: boolean): Json {
  // A list has commas between its words.
  const list = place === "query" && schema["type"] === "array" && { explode: false };
  return { name, in: place, required, ...list, ...(description !== undefined && { description }), schema };
}

const toPathParameter = (name: string, isRest = false): Json =>
  toParameter("path", name, { type: "string", ...(isRest && { description: "May contain slashes." }) }, true);

function toSuccess(data: Json): Json {
  const success = { type: "boolean", const: true };
  const schema = { type: "object", properties: { success, data }, required: ["success", "data"] };
  return { description: "OK", content: { "application/json": { schema } } };
}

const toJsonBody = (schema: Json, example?: Json): Json => ({
  required: true,
  content: { "application/json": { schema, ...(example && { example }) } },
});

const text = { type: "string" };
const bearer = { bearer: [] };
const readMethods = new Set(["get", "head", "options", "trace"]);
const bodyMethods = new Set(["post", "put", "patch"]);
const originRefusal = "The origin is not allowed";
const callerRefusal = "The caller is not allowed to do this";
const refusals = {
  401: "The token is missing or invalid",
  default: "The authentication provider rejected the request with a status of its choice",
};
const invalidRequest = "The request is invalid";
const customResponse = {
  description: "The response of the route, if it succeeds. Its status and its media type may differ.",
  content: { "application/json": { schema: {} } },
};
const customErrors: Errors = { 400: invalidRequest, 500: "Internal server error" };
const socketErrors: Errors = {
  400: "The handshake or a filter is malformed",
  426: "Upgrade required",
  503: "Too many sockets",
};

/** Returns the errors that are sent before the handler runs or in place of its response. */
function errorsOfKit(route: Route<never>): Errors {
  const streams = Object.values(route.responses).some((response) => "media" in response && response.media === sse);
  const errors: Record<string, string> = { 400: invalidRequest, 500: "Internal server error" };
  if (route.body) Object.assign(errors, { 413: "The body is too large", 415: "The body is not JSON" });
  if (route.path.includes("/:")) errors["414"] = "The path is too long";
  if (route.body) errors["503"] = "Too much data is in flight";
  if (streams) errors["503"] = "Too many open streams";
  return errors;
}
const sse = "text/event-stream";
