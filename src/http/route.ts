import * as v from "valibot";
import type { Action } from "../core/access/authorize.ts";
import type { Reservation } from "../core/byte-budget.ts";
import type { Identity } from "../core/caller.ts";
import { cut } from "../core/cut.ts";
import { badRequest } from "../core/error.ts";
import { toProblem } from "../core/schema.ts";
import { readJson, type BodyLimits } from "./body.ts";
import type { Page, Reply } from "./envelope.ts";
import type { EventStream } from "./sse.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
/** `protected` requires a caller if there is a provider, `public` only in opt-out mode. */
export type Access = "public" | "protected";
type ValueSchema = v.GenericSchema;
type ObjectSchema = v.GenericSchema<object>;
type HeaderSchemas = Readonly<Record<string, ValueSchema>>;

/** The schemas of `data` by status. `events()` marks a stream, `page()` any body outside the envelope, `nothing` none. */
export type Responses = Record<number, ValueSchema | Media>;
export interface Media {
  media: string;
  schema?: ValueSchema;
}
export const events = (schema: ValueSchema): Media => ({ media: "text/event-stream", schema });
export const page = (media: string): Media => ({ media });
/** Marks a response without a body. */
export const nothing: Media = { media: "" };

/** One endpoint. It is the only source for the router, the policy, OpenAPI and the test client. */
export interface Route<Snapshot> {
  readonly type: "route";
  readonly method: Method;
  readonly path: string;
  readonly summary: string;
  /** More about the route than its summary says, as Markdown. */
  readonly description?: string;
  readonly access: Access;
  /** The action that `authorize` is asked about. @default none: `authorize` is not asked */
  readonly action?: Action;
  /** The action that `authorize` is asked about instead, if the query names another user. @default none */
  readonly others?: Action;
  /**
   * True if a route of `configureApp` with the same method and path replaces this one. A path, if any route at or below that
   * path does. @default false
   */
  readonly yields?: boolean | string;
  /** False if the route answers while the store is not open yet. @default true */
  readonly needsStore?: boolean;
  /** The request headers that the handler reads, by name. An empty header is the same as none. */
  readonly headers?: HeaderSchemas;
  readonly query?: ObjectSchema;
  readonly body?: ObjectSchema;
  /** True if the limit of the body is `chatBodyBytes`. Only callers that passed the gate get it. @default false: `bodyBytes` */
  readonly largeBody?: boolean;
  readonly responses: Responses;
  /**
   * The errors specific to this route, by status. Errors that any route can return (413, 415 …) are not listed.
   * `default` describes the errors that the author's own code throws, with any status.
   */
  readonly errors?: Readonly<Record<number, string> & { default?: string }>;
  /** Returns what a caller gets instead of a 401. Undefined: the 401. */
  readonly refused?: (asked: Pick<RouteRequest<Snapshot>, "request" | "snapshot">) => Promise<Page | undefined>;
  /** Validates the headers, the query and the body, then runs the handler. */
  readonly run: (asked: RouteRequest<Snapshot>) => unknown;
}

/** A request that has matched a route. */
interface RouteRequest<Snapshot> {
  readonly request: Request;
  readonly params: Record<string, string>;
  readonly search: URLSearchParams;
  readonly identity: Identity;
  readonly requestId: string;
  /** The config version at the start of the request. */
  readonly snapshot: Snapshot;
  readonly limits: BodyLimits;
  readonly reservation: Reservation;
  /** Called for each key of the body that the schema does not have. */
  readonly unknownKey: (key: string) => void;
}

type ParamsOf<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamsOf<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;
type SchemaOutput<S> = S extends ValueSchema ? v.InferOutput<S> : undefined;
type HeaderValues<H> = { readonly [Name in keyof H]: SchemaOutput<H[Name]> };
type Data<R extends Responses> = R[200] extends ValueSchema ? v.InferInput<R[200]> : never;
type HandlerResult<R extends Responses> = Data<R> | Reply | EventStream | Page;

/** The part of a request that is known before its body is read. */
interface RequestHead<Snapshot, Path extends string, H, Q, A> {
  /** The action of the route. */
  action: A;
  /** The action of the route for another user. */
  others: Action | undefined;
  params: Record<ParamsOf<Path>, string>;
  headers: HeaderValues<H>;
  query: SchemaOutput<Q>;
  identity: Identity;
  request: Request;
  requestId: string;
  snapshot: Snapshot;
}
interface RouteOptions<Snapshot, Path extends string, H, Q, B, R extends Responses, Found, A> extends Omit<
  Route<Snapshot>,
  "type" | "path" | "action" | "headers" | "query" | "body" | "responses" | "run"
> {
  path: Path;
  action?: A;
  headers?: H;
  query?: Q;
  body?: B;
  responses: R;
  /** Finds the target of the request. Throws if the caller may not perform the action on it. Runs before the body is read. */
  find?(head: RequestHead<Snapshot, Path, H, Q, A>): Found | Promise<Found>;
  handle(
    input: RequestHead<Snapshot, Path, H, Q, A> & {
      body: SchemaOutput<B>;
      /** The result of `find`. */
      found: Found;
      /** Counts the body as data in flight for longer than the response. */
      hold: Reservation["hold"];
      /** This request's share of the byte budget. */
      reservation: Reservation;
    },
  ): HandlerResult<R> | Promise<HandlerResult<R>>;
}

export function defineRoute<
  Snapshot,
  const Path extends string,
  R extends Responses,
  Q extends ObjectSchema | undefined = undefined,
  B extends ObjectSchema | undefined = undefined,
  H extends HeaderSchemas = Readonly<Record<never, ValueSchema>>,
  Found = undefined,
  const A extends Action | undefined = undefined,
>({ find, handle, ...route }: RouteOptions<Snapshot, Path, H, Q, B, R, Found, A>): Route<Snapshot> {
  const { action, others, headers, query, body, largeBody } = route;
  return {
    ...route,
    type: "route",
    run({ request, params, search, identity, requestId, snapshot, limits, reservation, unknownKey }) {
      const checked = {
        action,
        others,
        params,
        headers: headers && readHeaders(headers, request),
        query: query && check(query, toRecord(search), "query"),
        body: undefined as unknown,
        found: undefined as unknown,
        identity,
        request,
        requestId,
        snapshot,
        hold: () => reservation.hold(),
        reservation,
      };
      // The schemas produced these values, and the path named the params. The generics hide that from TypeScript.
      type Input = Parameters<typeof handle>[0];
      const proceed = (found: unknown): unknown => {
        checked.found = found;
        if (!body) return handle(checked as Input);
        return readJson(request, limits, reservation, largeBody).then((json) => {
          checkKeys(body, json, "", unknownKey);
          checked.body = check(body, json, "request body");
          const release = reservation.hold(); // the handler may outlast a client that leaves
          if (!release) return handle(checked as Input);
          return (async () => handle(checked as Input))().finally(release);
        });
      };
      const found = find?.(checked as Input);
      return found instanceof Promise ? found.then(proceed) : proceed(found);
    },
  };
}

/** Validates an untrusted value. The message of the error is `Invalid <what>: <where>: <why>`. */
export function check<S extends ValueSchema>(schema: S, value: unknown, what: string): v.InferOutput<S> {
  const parsed = v.safeParse(schema, value, { abortEarly: true });
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  throw badRequest(`Invalid ${what}: ${toProblem(v.getDotPath(issue) ?? "", issue.message)}`);
}

function readHeaders(schemas: HeaderSchemas, { headers }: Request): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [name, check(schema, headers.get(name) || undefined, name)]),
  );
}

export function toRecord(search: URLSearchParams): Record<string, string> {
  const record: Record<string, string> = Object.create(null);
  for (const [name, value] of search) {
    if (name in record) throw badRequest(`Invalid query: ${cut(name)} is given twice`);
    record[name] = value;
  }
  return record;
}

/**
 * Compares the body with the object schemas of a route. It reports unknown keys, and throws for an array in place of an
 * object, which valibot would accept. A record has no unknown keys.
 */
function checkKeys(schema: ValueSchema, value: unknown, path: string, unknownKey: (key: string) => void): void {
  const { type, entries } = unwrap(schema) as { type: string; entries?: Record<string, ValueSchema> };
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value) && (entries || type === "record")) {
    const where = path ? `${path.slice(0, -1)}: ` : "";
    throw badRequest(`Invalid request body: ${where}Invalid type: Expected Object but received Array`);
  }
  if (type === "record" && hasMore(value, maxKeys)) {
    throw badRequest(`Invalid request body: ${path.slice(0, -1)}: more than ${maxKeys} keys`);
  }
  if (!entries) return;
  let unknown = 0;
  for (const key in value) {
    if (Object.hasOwn(entries, key)) continue;
    if (++unknown > maxUnknown) break;
    unknownKey(path + key);
  }
  for (const [key, entry] of Object.entries(entries)) {
    if (Object.hasOwn(value, key))
      checkKeys(entry, (value as Record<string, unknown>)[key], `${path}${key}.`, unknownKey);
  }
}

/** Max keys of an object whose keys a client chooses. */
const maxKeys = 10_000;
/** Max unknown keys of one object that are reported. */
const maxUnknown = 100;

function hasMore(value: object, max: number): boolean {
  let count = 0;
  for (const _ in value) if (++count > max) return true;
  return false;
}

function unwrap(schema: ValueSchema): ValueSchema {
  const { wrapped } = schema as { wrapped?: ValueSchema };
  return wrapped ? unwrap(wrapped) : schema;
}
