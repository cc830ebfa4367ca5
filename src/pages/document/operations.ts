import type { GenericSchema } from "valibot";
import { needsAuthorize } from "../../core/access/authorizer.ts";
import type { Media, Route } from "../../http/route.ts";
import type { SocketRoute } from "../../sockets/socket.ts";
import {
  type AnyRoute,
  askCustomPolicy,
  askPolicy,
  type Catalog,
  type CustomRoute,
  type Json,
  mayRefuse,
  toPath,
  type Verdict,
} from "../catalog.ts";
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
export class Operations {
  readonly #components: Components;
  readonly #options: OperationsOptions;
  readonly #toUniqueId = createNames("-");
  readonly #ownResponses = new Map<Json, Json>(); // by the schema of the result: execute and resume answer the same
  readonly #limited: Errors;

  constructor(components: Components, options: OperationsOptions) {
    this.#components = components;
    this.#options = options;
    this.#limited = options.isLimited ? { 429: "Too many requests; Retry-After has the seconds to wait" } : {};
  }

  toBuiltIn(route: AnyRoute): Json {
    const { operationId, tags } = toLabels(route);
    const { summary, description } = route;
    const labels = { operationId: this.#toUniqueId(operationId), tags, summary, description };
    return { ...labels, ...(route.type === "route" ? this.#toRoute(route) : this.#toSocket(route)) };
  }

  /** Returns the operation of a route for one workflow or agent. */
  toOwn(route: Route<never>, own: OwnOperation): Json {
    const { id, tag, summary, description, example, body, result = {} } = own;
    const name = `Workflow${toPascalCase(id)}`;
    const operation = this.#toRoute(route, id);
    const hasResult = Object.keys(result).length > 0;
    return {
      ...operation,
      operationId: this.#toUniqueId(own.operationId),
      tags: [tag],
      summary,
      description: description || (route.description ?? route.summary),
      requestBody: toJsonBody(body ? this.#toOwnBody(route, body, name) : this.#toBody(route), example),
      responses: {
        ...(operation["responses"] as Json),
        ...(hasResult && { 200: this.#toOwnResponse(route, result, name) }),
      },
    };
  }

  #toRoute(route: Route<never>, id?: string): Json {
    const params = [...toPath(route.path, id).matchAll(/(?<=\/:)\w+/g)].map(([name]) => name);
    const responses: Json = {};
    for (const [status, response] of Object.entries(route.responses)) responses[status] = this.#toResponse(response);
    const { policy, refusesOrigins } = this.#options;
    const { security, errors } = toSecurity(policy && askPolicy(policy, route, id));
    const all = {
      ...errorsOfKit(route),
      ...this.#toForbidden(route, refusesOrigins && route.method !== "GET"),
      ...route.errors,
      ...this.#limited,
      ...errors,
    };
    return {
      ...security,
      parameters: [
        ...params.map((name) => toPathParameter(name)),
        ...this.#toQueryParameters(route.query),
        ...this.#toHeaderParameters(route.headers),
      ],
      ...(route.body && { requestBody: toJsonBody(this.#toBody(route)) }),
      responses: { ...responses, ...this.#toErrors(all) },
    };
  }

  #toForbidden(route: AnyRoute, refusesOrigin: boolean): Errors {
    const { action } = route;
    const isClosed = action !== undefined && needsAuthorize(action);
    const takesOthers = route.type === "route" && route.others !== undefined;
    const { policy, isAuthorized } = this.#options;
    const refusesCaller = (isAuthorized && action !== undefined) || (policy !== undefined && (isClosed || takesOthers));
    if (refusesCaller) return { 403: refusesOrigin ? "The origin or the caller is not allowed" : callerRefusal };
    return refusesOrigin ? { 403: originRefusal } : {};
  }

  #toBody({ body }: Route<never>): Json {
    return body ? this.#components.convert(body, "input") : {};
  }

  /** Returns a route's body with the author's schema for one property. */
  #toOwnBody(route: Route<never>, { property, isRequired, schemas }: OwnBody, name: string): Json {
    const wanted = name + (property === "input" ? "Input" : "Resume");
    const kinds = schemas.map((schema) => this.#components.adopt(schema, wanted));
    const body = this.#components.resolve(this.#toBody(route));
    const [first = {}] = kinds;
    const schema = kinds.length === 1 ? first : { anyOf: kinds };
    const properties = { ...(body["properties"] as Json), [property]: schema };
    return { ...body, properties, ...(isRequired && { required: [property] }) };
  }

  /** Returns the response of a route with the author's schema as `result`. It is null until the execution ends. */
  #toOwnResponse(route: Route<never>, result: Json, name: string): Json {
    const known = this.#ownResponses.get(result);
    if (known) return known;
    const shape = this.#components.resolve(this.#components.convert(route.responses[200] as GenericSchema, "output"));
    const schema = { anyOf: [this.#components.adopt(result, `${name}Result`), { type: "null" }] };
    const properties = { ...(shape["properties"] as Json), result: schema };
    const made = toSuccess(this.#components.add({ ...shape, properties }, `${name}Execution`));
    this.#ownResponses.set(result, made);
    return made;
  }

  #toSocket(route: SocketRoute): Json {
    const { security, errors } = toSecurity(this.#options.policy && askPolicy(this.#options.policy, route, undefined));
    const all = { ...socketErrors, ...this.#toForbidden(route, true), ...this.#limited, ...errors };
    const responses = { 101: { description: "WebSocket" }, ...this.#toErrors(all) };
    return { ...security, parameters: this.#toQueryParameters(route.query), responses };
  }

  /** A route of `configureApp`. Its body and its responses are known only to its handler. */
  toCustom(route: CustomRoute, method: string, path: string, { params }: PathTemplate): Json {
    const { security, errors } = toSecurity(this.#options.policy && askCustomPolicy(this.#options.policy, route));
    const names = [...path.matchAll(/(?<=\{)\w+(?=\})/g)].map(([name]) => name);
    const foreign: Errors = this.#options.refusesOrigins && !readMethods.has(method) ? { 403: originRefusal } : {};
    const all = { ...customErrors, ...foreign, ...this.#limited, ...errors };
    return {
      operationId: this.#toUniqueId(toOperationId(method, route.path)),
      tags: [ownTags.routes],
      summary: `${method.toUpperCase()} ${route.path}`,
      description: "A route of `configureApp`. Its body and its responses are not described.",
      ...security,
      parameters: names.map((name, index) => toPathParameter(name, params[index]?.isRest)),
      ...(bodyMethods.has(method) && { requestBody: { content: { "application/json": { schema: {} } } } }),
      responses: { 200: customResponse, ...this.#toErrors(all) },
    };
  }

  #toResponse(response: GenericSchema | Media): Json {
    if (!("media" in response)) return toSuccess(this.#components.convert(response, "output"));
    if (response.media === "") return { description: "Nothing to send" };
    const own = response.schema && this.#components.convert(response.schema, "output");
    const content = Object.fromEntries(
      response.media.split(", ").map((media) => [media, { schema: own ?? (media.startsWith("text/") ? text : {}) }]),
    );
    return { description: "OK", content };
  }

  #toErrors(errors: Errors): Json {
    return Object.fromEntries(
      Object.entries(errors).map(([status, text]) => [status, this.#components.toErrorResponseRef(status, text)]),
    );
  }

  #toQueryParameters(query: GenericSchema | undefined): Json[] {
    if (!query) return [];
    const { properties = {}, required = [] } = this.#components.convert(query, "output") as {
      properties?: Record<string, Json>;
      required?: string[];
    };
    return Object.entries(properties).map(([name, schema]) =>
      toParameter("query", name, schema, required.includes(name)),
    );
  }

  #toHeaderParameters(headers: Route<never>["headers"] = {}): Json[] {
    return Object.entries(headers).map(([name, schema]) =>
      toParameter("header", name, this.#components.convert(schema, "output"), false),
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
