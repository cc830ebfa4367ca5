import { getWebSocketHooks } from "crossws";
import type { H3Event, H3 } from "h3";
import type { Snapshot } from "../config/snapshot.ts";
import type { Activity } from "../core/log.ts";
import type { ByteBudget } from "../core/byte-budget.ts";
import { admit } from "../core/access/authorizer.ts";
import { type Identity } from "../core/caller.ts";
import { badRequest, isShown, notFound, ServeError } from "../core/error.ts";
import { nextRequestId, requestIdHeader } from "../http/request-id.ts";
import { currentScope, runInScope } from "../core/scope.ts";
import type { Tracer } from "../core/trace.ts";
import type { Runtime } from "../engine/runtime.ts";
import { createProxyReader, type ProxyReader } from "../http/client-address.ts";
import { createCors, type Cors } from "../http/cors.ts";
import { toEnvelope, toErrorEnvelope, withHeaders, type Answer, type HeaderPairs } from "../http/envelope.ts";
import { toCallerName, toShort } from "../http/rate-limit.ts";
import { EventStream, sseHeaders, type Streams } from "../http/sse.ts";
import type { Match, Table } from "../http/table.ts";
import { countResponse, type Counters } from "../observability/metrics/counters.ts";
import type { Upgraded } from "../sockets/upgrade.ts";
import type { BuiltInRoute } from "./built-in-routes.ts";
import { innerHandler, methodNotAllowed, type InnerHandler } from "./custom.ts";
import { listRoutes, type ListedRoute } from "./listing.ts";
import type { ConsoleAccess } from "./requests/console-access.ts";
import { RequestGuard, type GuardOptions } from "./requests/guard.ts";
import { createMiddlewareAnswer } from "./requests/middleware-answer.ts";
import {
  createRouteCounts,
  incomingOf,
  recordOf,
  RequestRecord,
  setArrival,
  toOutcome,
  type Incoming,
} from "./requests/request-record.ts";
import { answerInScope } from "./requests/request-span.ts";
import { toHooks } from "./requests/socket-hooks.ts";

export type Mode = "dev" | "start";
/** Gets the errors that are hidden from the caller. */
export type RequestReport = (error: unknown, requestId: string | undefined) => void;
/** The gate of requests that arrive before the store is open. */
export interface StoreGate {
  /** Pending while the port is open and the store is not. Rejects with a 503 if the store cannot be opened. */
  opening: Promise<unknown> | undefined;
}
/** The server parts that all apps share. */
export interface SharedAppParts extends Pick<GuardOptions, "mode" | "logger" | "clock" | "sessions"> {
  readonly report: RequestReport;
  readonly streams: Streams;
  readonly activity: Activity;
  readonly tracer: Tracer;
  readonly counters: Counters;
  readonly budget: ByteBudget;
  /** Called for each unknown key of a request body. */
  readonly unknownKey: (route: string, key: string) => void;
  readonly store: StoreGate;
}
export interface AppParts extends SharedAppParts, Pick<GuardOptions, "snapshot" | "hasConsole"> {
  readonly table: Table<BuiltInRoute>;
  /** The app of `configureApp`. */
  readonly custom: H3;
  /** The routes that `start` does not serve. */
  readonly devOnly: ReadonlySet<BuiltInRoute>;
  /** Returns the runtime that acts for a caller. */
  readonly runtimeFor: (identity: Identity) => Runtime;
}

/** An app that serves one snapshot of the config. A request passes cors → auth → its built-in route, or else the custom app. */
export class App {
  readonly snapshot: Snapshot;
  readonly #parts: AppParts;
  readonly #cors: Cors;
  readonly #guard: RequestGuard;
  readonly #findAddress: ProxyReader["findAddress"];
  readonly #countsOf: ReturnType<typeof createRouteCounts>;
  readonly #answerInMiddleware: ReturnType<typeof createMiddlewareAnswer>;

  constructor(parts: AppParts) {
    const { snapshot, table, counters, report } = parts;
    const { cors, trustedProxies } = snapshot.config.server;
    this.snapshot = snapshot;
    this.#parts = parts;
    this.#cors = createCors(cors);
    this.#guard = new RequestGuard({ ...parts, cors: this.#cors });
    this.#findAddress = createProxyReader(trustedProxies).findAddress;
    this.#countsOf = createRouteCounts(table, counters);
    this.#answerInMiddleware = createMiddlewareAnswer({
      table,
      report,
      identify: (event, asked) => this.#guard.identify(event, asked),
      allowLargeBody: (event) => this.#allowLargeBody(event),
      answerBuiltIn: (event, match, identity) => this.#answerBuiltIn(event, match, identity, []),
      askCustom: (event, identity, inner) => this.#askCustom(event, identity, inner),
    });
  }

  /** Answers a request. Never rejects. */
  async answer(incoming: Incoming): Promise<Answer> {
    const { activity } = this.#parts;
    const record = new RequestRecord(incoming.request.method, nextRequestId());
    const response = await this.#respond(incoming, record);
    countResponse(this.#countsOf(record.route), response.status, record.ms() / 1_000);
    if (activity.isOn()) record.log(activity, toOutcome(response));
    return response;
  }

  /** Returns the WebSocket hooks, or the refusal that the host application returned. Throws all other refusals. */
  async upgrade(request: Request, requestId: string): Promise<Upgraded & { isBuiltIn: boolean }> {
    const { activity } = this.#parts;
    const record = new RequestRecord("GET", requestId);
    const log = (status: number): void => {
      if (activity.isOn()) record.log(activity, { status, isStream: false });
    };
    try {
      const opened = await this.#open(request, record);
      log(opened.refusal?.status ?? 101);
      return opened;
    } catch (error) {
      log(isShown(error) ? error.status : 500);
      throw error;
    }
  }

  /** Returns every route, built-in and custom. */
  routes(): ListedRoute[] {
    const { config, policy, authorizer } = this.snapshot;
    const ownership = config.auth?.ownership === true;
    return listRoutes({ ...this.#parts, policy, authorizer, ownership, basePath: config.server.basePath });
  }

  async #respond(incoming: Incoming, record: RequestRecord): Promise<Answer> {
    const { request } = incoming;
    const { report } = this.#parts;
    const { snapshot } = this;
    const id: HeaderPairs = [requestIdHeader(record.requestId)];
    let headers = id;
    let match: Match<BuiltInRoute> | undefined;
    try {
      const event = this.#toEvent(request, record, incoming);
      const { console } = this.#guard;
      if (console?.isOwnRead(request)) record.isQuiet = record.isUntraced = true;
      if (console?.isApi(event.url.pathname)) return await this.#answerConsoleApi(event, console, headers);
      if (snapshot.config.server.cors === false) return withHeaders(await this.#answerInMiddleware(event, record), id);
      headers = headers.concat(this.#cors.headers(request));
      const preflight = this.#cors.preflight(request);
      if (preflight) record.isQuiet = true;
      if (preflight) return withHeaders(preflight, id);
      this.#guard.checkForeign(event);
      match = this.#match(event);
      const identity = await this.#identify(event, match);
      if (match?.route.largeBody) this.#allowLargeBody(event);
      if (match) return await this.#answerBuiltIn(event, match, identity, headers);
      return withHeaders(await this.#askCustom(event, identity), headers);
    } catch (error) {
      const isRefusal = error instanceof ServeError && error.status === 401;
      const shown = isRefusal && match?.route.type === "route" && (await match.route.refused?.({ request, snapshot }));
      if (shown) return toEnvelope(shown, headers);
      return toErrorEnvelope(error, headers, (hidden) => report(hidden, record.requestId));
    }
  }

  /** Answers outside of CORS and the host's middleware: no page of another origin may read an answer. */
  async #answerConsoleApi(event: H3Event, console: ConsoleAccess, headers: HeaderPairs): Promise<Answer> {
    const { req: request, url } = event;
    console.checkOrigin(request, url);
    const match = this.#match(event);
    if (!match) throw methodNotAllowed(this.#parts.table, url.pathname);
    return this.#answerBuiltIn(event, match, await this.#identify(event, match), headers);
  }

  #toEvent(request: Request, record: RequestRecord, incoming?: Incoming): H3Event {
    const event = this.#guard.toEvent(request);
    record.readAddress(event.url);
    setArrival(event, record, incoming);
    return event;
  }

  #match(event: H3Event, method: string = event.req.method): Match<BuiltInRoute> | undefined {
    const match = this.#parts.table.find(method, event.url.pathname);
    recordOf(event).route = match?.route;
    return match;
  }

  #identify(event: H3Event, match: Match<BuiltInRoute> | undefined): Promise<Identity> {
    const { requestId } = recordOf(event);
    return this.#guard.identify(event, { method: event.req.method, route: match?.route, requestId });
  }

  /** Raises the limit of the body. The caller has passed the gate, and nothing has read the body. */
  #allowLargeBody(event: H3Event): void {
    const { bodyBytes, chatBodyBytes } = this.snapshot.config.server.limits;
    const declared = event.req.headers.get("content-length");
    if (declared !== null && Number(declared) <= bodyBytes) return;
    const { context } = event;
    const req = Object.assign(incomingOf(event).withBodyLimit(chatBodyBytes), { context });
    Object.assign(event, { req });
  }

  async #askCustom(event: H3Event, identity: Identity, inner?: InnerHandler): Promise<Response> {
    const { req, context } = event;
    const { custom, logger, runtimeFor, store, tracer } = this.#parts;
    const { caller } = identity;
    const record = recordOf(event);
    const { requestId } = record;
    const runtime = runtimeFor(identity);
    Object.assign(context, { requestId, logger, runtime, authenticatedUser: caller?.user, [innerHandler]: inner });
    const ids = { requestId, userId: caller?.userId };
    if (store.opening && !inner) await store.opening;
    // A built-in route starts a span itself.
    if (inner) return runInScope(ids, async () => custom.fetch(req));
    return answerInScope(tracer, { request: req, ids }, async () => {
      record.scope = currentScope() ?? record.scope;
      const response = await custom.fetch(req);
      record.route = context.matchedRoute;
      return response;
    });
  }

  #answerBuiltIn(
    event: H3Event,
    match: Match<BuiltInRoute>,
    identity: Identity,
    headers: HeaderPairs,
  ): Promise<Answer> {
    const { route, params } = match;
    const { store, tracer } = this.#parts;
    const record = recordOf(event);
    const ids = { requestId: record.requestId, userId: identity.caller?.userId };
    const span = { request: event.req, ids, route: route.path, params };
    return answerInScope(record.isUntraced ? untraced : tracer, span, async () => {
      if (store.opening && route.needsStore !== false) await store.opening;
      record.scope = currentScope() ?? record.scope;
      return this.#toAnswer(await this.#run(event, match, identity), event, headers, identity);
    });
  }

  #run(event: H3Event, { route, params }: Match<BuiltInRoute>, identity: Identity): unknown {
    if (route.type === "socket") throw new ServeError(426, "Upgrade required", { headers: [["upgrade", "websocket"]] });
    const { budget, unknownKey } = this.#parts;
    return route.run({
      request: event.req,
      params,
      search: event.url.searchParams,
      identity,
      requestId: recordOf(event).requestId,
      snapshot: this.#viewFor(identity),
      limits: this.snapshot.config.server.limits,
      reservation: budget.createReservation(incomingOf(event).onEnded),
      unknownKey: (key) => unknownKey(`${route.method} ${route.path}`, key),
    });
  }

  #toAnswer(value: unknown, event: H3Event, headers: HeaderPairs, { caller }: Identity): Answer | Promise<Answer> {
    // A shared cache does not store responses to an Authorization header. It may store those to a cookie or an API key.
    const own: HeaderPairs = caller ? headers.concat(uncached) : headers;
    if (!(value instanceof EventStream)) return toEnvelope(value, own);
    const { req: request } = event;
    if (request.method === "HEAD")
      return new Response(null, { headers: [...sseHeaders, ...value.headers, ...headers] });
    // The answer to a POST ends with its work. A GET may stay open for as long as the client likes.
    const name = request.method === "GET" ? toCallerName(request, caller, this.#findAddress) : undefined;
    return this.#parts.streams.open(value, request.signal, headers, name && toShort(name)).then((opened) => {
      if (value.options.isDetached) incomingOf(event).release();
      return opened;
    });
  }

  async #open(request: Request, record: RequestRecord): ReturnType<App["upgrade"]> {
    const event = this.#toEvent(request, record);
    this.#guard.checkSocket(event);
    const method = "GET";
    const match = this.#match(event, method);
    const { requestId } = record;
    const identity = await this.#guard.identify(event, { method, route: match?.route, requestId, isUpgrade: true });
    if (match?.route.type === "socket") {
      const { action } = match.route;
      const asked = { identity, snapshot: this.#viewFor(identity) };
      if (action) await runInScope({ requestId }, () => admit({ action, ...asked }, undefined));
      return { hooks: toHooks(match.route, event.url.searchParams, identity), isBuiltIn: true };
    }
    if (match) throw notFound();
    const response = await this.#askCustom(event, identity);
    // Not response.crossws: middleware that sets a header drops it.
    const hooks = getWebSocketHooks(request);
    if (!hooks && response.ok) throw badRequest("Not a WebSocket route");
    return { ...(hooks ? { hooks } : { refusal: response }), isBuiltIn: false };
  }

  #viewFor(identity: Identity): Snapshot {
    return this.#guard.console?.viewFor(identity) ?? this.snapshot;
  }
}

const untraced: Tracer = { isOn: () => false, start: () => undefined };
const uncached: HeaderPairs = [["cache-control", "private, no-store"]];
