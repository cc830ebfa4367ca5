import { getWebSocketHooks } from "crossws";
import { H3Event, type H3 } from "h3";
import { createGate } from "../auth/gate.ts";
import type { Snapshot } from "../config/snapshot.ts";
import type { ConsoleSessions } from "../console/sessions.ts";
import type { Activity, Logger } from "../core/log.ts";
import type { ByteBudget } from "../core/byte-budget.ts";
import { admit } from "../core/access/authorizer.ts";
import { unchecked, type Identity } from "../core/caller.ts";
import type { Clock } from "../core/clock.ts";
import { badRequest, isShown, notFound, ServeError } from "../core/error.ts";
import { nextRequestId, requestIdHeader } from "../http/request-id.ts";
import { currentScope, runInScope } from "../core/scope.ts";
import type { Tracer } from "../core/trace.ts";
import { createCors } from "../http/cors.ts";
import { createProxyReader } from "../http/client-address.ts";
import { createRateLimit, toCallerName, toShort } from "../http/rate-limit.ts";
import type { Runtime } from "../engine/runtime.ts";
import { toEnvelope, toErrorEnvelope, withHeaders, type Answer, type HeaderPairs } from "../http/envelope.ts";
import { checkPath, createEnterBase } from "../http/path.ts";
import { EventStream, sseHeaders, type Streams } from "../http/sse.ts";
import type { Match, Table } from "../http/table.ts";
import { countResponse, type Counters } from "../observability/metrics/counters.ts";
import type { Upgraded } from "../sockets/upgrade.ts";
import type { BuiltInRoute } from "./built-in-routes.ts";
import { innerHandler, methodNotAllowed, type InnerHandler } from "./custom.ts";
import { createConsoleAccess } from "./requests/console-access.ts";
import { createHostCheck, createHostReader } from "./requests/hosts.ts";
import type { Incoming } from "./requests/incoming.ts";
import { listRoutes, type ListedRoute } from "./listing.ts";
import { createMiddlewareAnswer } from "./requests/middleware-answer.ts";
import { createOriginCheck, isForeign, isOwn } from "./requests/origins.ts";
import type { StoreGate } from "./store-gate.ts";
import { RequestRecord, toOutcome } from "./requests/request-record.ts";
import { answerInScope } from "./requests/request-span.ts";
import { createRouteCounts } from "./requests/route-counts.ts";
import { toHooks } from "./requests/socket-hooks.ts";

declare module "h3" {
  interface H3EventContext {
    [arrival]?: Incoming;
    [requestRecord]?: RequestRecord | undefined;
  }
}
const requestRecord: unique symbol = Symbol("requestRecord");
const arrival: unique symbol = Symbol("arrival");

export type Mode = "dev" | "start";
/** Gets the errors that are hidden from the caller. */
export type RequestReport = (error: unknown, requestId: string | undefined) => void;
export interface AppOptions {
  readonly snapshot: Snapshot;
  readonly table: Table<BuiltInRoute>;
  /** The app of `configureApp`. */
  readonly custom: H3;
  readonly report: RequestReport;
  readonly streams: Streams;
  readonly mode: Mode;
  readonly logger: Logger;
  readonly activity: Activity;
  readonly tracer: Tracer;
  readonly counters: Counters;
  readonly budget: ByteBudget;
  readonly clock?: Clock | undefined;
  /** Called for each unknown key of a request body. */
  readonly unknownKey: (route: string, key: string) => void;
  readonly store: StoreGate;
  /** False if this version does not serve the console. */
  readonly hasConsole: boolean;
  /** The sessions of the console. Undefined where no link signs in. */
  readonly sessions: ConsoleSessions | undefined;
  /** The routes that `start` does not serve. */
  readonly devOnly: ReadonlySet<BuiltInRoute>;
  /** Returns the runtime that acts for a caller. */
  readonly runtimeFor: (identity: Identity) => Runtime;
}
/** An app that serves one snapshot of the config. */
export interface App {
  readonly snapshot: Snapshot;
  /** Answers a request. Never rejects. */
  answer(incoming: Incoming): Promise<Answer>;
  /** Returns the hooks of a WebSocket request, or the host's own refusal. Throws every other refusal. */
  upgrade(request: Request, requestId: string): Promise<Upgraded & { isBuiltIn: boolean }>;
  /** Returns every route, built-in and custom. */
  routes(): ListedRoute[];
}

/** Creates an app. A request passes cors → auth → the built-in route that matches, or else the custom app. */
export function createApp({
  snapshot,
  table,
  custom,
  report,
  streams,
  mode,
  logger,
  activity,
  tracer,
  counters,
  budget,
  clock,
  unknownKey,
  store,
  hasConsole,
  sessions,
  devOnly,
  runtimeFor,
}: AppOptions): App {
  const { server, auth } = snapshot.config;
  const { cors: corsOptions, allowedHosts, basePath, limits, rateLimit, trustedProxies } = server;
  const enterBase = basePath === undefined ? undefined : createEnterBase(basePath);
  const cors = createCors(corsOptions);
  const checkOrigin = createOriginCheck(cors, auth);
  const isHost = createHostReader();
  const isOurHost = mode === "dev" ? createHostCheck(allowedHosts) : () => true;
  const { policy } = snapshot;
  const { findAddress } = createProxyReader(trustedProxies);
  const rate = rateLimit && createRateLimit(rateLimit, trustedProxies, clock);
  const gate =
    auth &&
    policy &&
    createGate(auth, {
      policy,
      ownership: auth.ownership === true && !snapshot.authorizer?.isGlobal,
      report: (error) => logger.error("The authentication provider failed", { error }),
      clock,
    });
  const access = hasConsole ? createConsoleAccess(snapshot, sessions) : undefined;
  const answerInMiddleware = createMiddlewareAnswer({
    table,
    matched,
    identify,
    allowLargeBody,
    answerBuiltIn,
    askCustom,
    report,
  });

  const countsOf = createRouteCounts(table, counters);

  async function answer(incoming: Incoming): Promise<Answer> {
    const record = new RequestRecord(incoming.request.method, nextRequestId());
    const response = await respond(incoming, record);
    countResponse(countsOf(record.route), response.status, record.ms() / 1_000);
    if (activity.isOn()) record.log(activity, toOutcome(response));
    return response;
  }

  async function respond(incoming: Incoming, record: RequestRecord): Promise<Answer> {
    const { request } = incoming;
    const { requestId } = record;
    const id: HeaderPairs = [requestIdHeader(requestId)];
    let headers = id;
    let match: Match<BuiltInRoute> | undefined;
    try {
      const event = toEvent(request, record);
      event.context[arrival] = incoming;
      if (access?.isOwnRead(request)) record.isQuiet = record.isUntraced = true;
      if (access?.isApi(event.url.pathname)) return await answerConsoleApi(event, requestId, headers);
      if (corsOptions === false) return withHeaders(await answerInMiddleware(event, requestId), id);
      headers = headers.concat(cors.headers(request));
      const preflight = cors.preflight(request);
      if (preflight) record.isQuiet = true;
      if (preflight) return withHeaders(preflight, id);
      if (isForeign(request, event.url)) checkOrigin(request.headers.get("origin"));
      match = table.find(request.method, event.url.pathname);
      matched(event, match);
      const identity =
        gate || rate || access
          ? await runInScope({ requestId }, () => identify(event, request.method, match))
          : unchecked;
      if (match?.route.largeBody) allowLargeBody(event);
      if (match) return await answerBuiltIn(match, event, identity, requestId, headers);
      return withHeaders(await askCustom(event, requestId, identity), headers);
    } catch (error) {
      const isRefusal = error instanceof ServeError && error.status === 401;
      const shown = isRefusal && match?.route.type === "route" && (await match.route.refused?.({ request, snapshot }));
      if (shown) return toEnvelope(shown, headers);
      return toErrorEnvelope(error, headers, (hidden) => report(hidden, requestId));
    }
  }

  /** Answers outside of CORS and of the host's middleware: no page of another origin may read an answer. */
  async function answerConsoleApi(event: H3Event, requestId: string, headers: HeaderPairs): Promise<Answer> {
    const { req: request, url } = event;
    access!.checkOrigin(request, url);
    const match = table.find(request.method, url.pathname);
    matched(event, match);
    if (!match) throw methodNotAllowed(table, url.pathname);
    const identity = await runInScope({ requestId }, () => identify(event, request.method, match));
    return answerBuiltIn(match, event, identity, requestId, headers);
  }

  /**
   * Returns the identity of a request, by the matched route and by the path that both routers read. Throws the 401, and
   * the 429 of the rate limit.
   */
  async function identify(
    { req, url }: H3Event,
    method: string,
    match: Match<BuiltInRoute> | undefined,
    isUpgrade = false,
  ): Promise<Identity> {
    const { pathname: path, searchParams: search } = url;
    rate?.checkAddress(req, path);
    const route = match?.route;
    const identity =
      access?.identify(req, url, isUpgrade) ??
      (gate ? await gate(req, { method, path, search, route, isUpgrade }) : unchecked);
    rate?.checkCaller(req, path, identity.caller);
    await access?.checkMark(req, { method, route, identity });
    return identity;
  }

  /** Raises the limit of the body. The caller has passed the gate, and nothing has read the body. */
  function allowLargeBody(event: H3Event): void {
    const declared = event.req.headers.get("content-length");
    if (declared !== null && Number(declared) <= limits.bodyBytes) return;
    const { context } = event;
    const req = Object.assign(context[arrival]!.withBodyLimit(limits.chatBodyBytes), { context });
    Object.assign(event, { req });
  }

  async function askCustom(
    { req, context }: H3Event,
    requestId: string,
    identity: Identity,
    inner?: InnerHandler,
  ): Promise<Response> {
    const { caller } = identity;
    const runtime = runtimeFor(identity);
    Object.assign(context, { requestId, logger, runtime, authenticatedUser: caller?.user, [innerHandler]: inner });
    const ids = { requestId, userId: caller?.userId };
    if (store.opening && !inner) await store.opening;
    // A built-in route starts a span itself.
    if (inner) return runInScope(ids, async () => custom.fetch(req));
    return answerInScope(tracer, { request: req, ids }, async () => {
      const record = context[requestRecord];
      if (!record) return custom.fetch(req);
      record.scope = currentScope()!;
      const response = await custom.fetch(req);
      record.route = context.matchedRoute;
      return response;
    });
  }

  function answerBuiltIn(
    match: Match<BuiltInRoute>,
    event: H3Event,
    identity: Identity,
    requestId: string,
    headers: HeaderPairs,
  ): Promise<Answer> {
    const { req: request } = event;
    const ids = { requestId, userId: identity.caller?.userId };
    const span = { request, ids, route: match.route.path, params: match.params };
    const isUntraced = event.context[requestRecord]?.isUntraced === true;
    return answerInScope(isUntraced ? untraced : tracer, span, async () => {
      if (store.opening && match.route.needsStore !== false) await store.opening;
      const record = event.context[requestRecord];
      if (record) record.scope = currentScope()!;
      const { release } = event.context[arrival]!;
      return toAnswer(await run(match, event, identity, requestId), request, headers, identity, release);
    });
  }

  function run({ route, params }: Match<BuiltInRoute>, event: H3Event, identity: Identity, requestId: string): unknown {
    if (route.type === "socket") throw new ServeError(426, "Upgrade required", { headers: [["upgrade", "websocket"]] });
    return route.run({
      request: event.req,
      params,
      search: event.url.searchParams,
      identity,
      requestId,
      snapshot: access?.viewFor(identity) ?? snapshot,
      limits,
      reservation: budget.createReservation(event.context[arrival]!.onEnded),
      unknownKey: (key) => unknownKey(`${route.method} ${route.path}`, key),
    });
  }

  function toAnswer(
    value: unknown,
    request: Request,
    headers: HeaderPairs,
    { caller }: Identity,
    release: () => void,
  ): Answer | Promise<Answer> {
    // A shared cache does not store responses to an Authorization header. It may store those to a cookie or an API key.
    const own: HeaderPairs = caller ? headers.concat(uncached) : headers;
    if (!(value instanceof EventStream)) return toEnvelope(value, own);
    if (request.method === "HEAD")
      return new Response(null, { headers: [...sseHeaders, ...value.headers, ...headers] });
    // The answer to a POST ends with its work. A GET may stay open for as long as the client likes.
    const name = request.method === "GET" ? toCallerName(request, caller, findAddress) : undefined;
    return streams.open(value, request.signal, headers, name && toShort(name)).then((opened) => {
      if (value.options.isDetached) release();
      return opened;
    });
  }

  /** Returns h3's view of the request. Its URL has the path that both routers read, with needless escapes decoded. */
  function toEvent(request: Request, record?: RequestRecord): H3Event {
    let event: H3Event;
    try {
      event = new H3Event(request);
    } catch (cause) {
      throw badRequest("Bad request", cause); // `/./x` with a Host that is not valid in a URL
    }
    const host = request.headers.get("host");
    if (host !== null && !isHost(host)) throw badRequest("Bad request: invalid Host header");
    if (!isOurHost(host ?? event.url.host)) throw new ServeError(403, "Host not allowed");
    checkPath(event.url.pathname);
    enterBase?.(event);
    record?.readAddress(event.url);
    event.context[requestRecord] = record;
    return event;
  }

  async function upgrade(request: Request, requestId: string): ReturnType<App["upgrade"]> {
    if (!activity.isOn()) return open(request, requestId);
    const record = new RequestRecord("GET", requestId);
    const log = (status: number): void => record.log(activity, { status, isStream: false });
    try {
      const opened = await open(request, requestId, record);
      log(opened.refusal?.status ?? 101);
      return opened;
    } catch (error) {
      log(isShown(error) ? error.status : 500);
      throw error;
    }
  }

  async function open(request: Request, requestId: string, record?: RequestRecord): ReturnType<App["upgrade"]> {
    const event = toEvent(request, record);
    const origin = request.headers.get("origin");
    if (origin !== null && !isOwn(origin, event.url)) checkOrigin(origin);
    const match = table.find("GET", event.url.pathname);
    matched(event, match);
    const identity = await identify(event, "GET", match, true);
    if (match?.route.type === "socket") {
      const { action } = match.route;
      const asked = { identity, snapshot: access?.viewFor(identity) ?? snapshot };
      if (action) await runInScope({ requestId }, () => admit({ action, ...asked }, undefined));
      return { hooks: toHooks(match.route, event.url.searchParams, identity), isBuiltIn: true };
    }
    if (match) throw notFound();
    const response = await askCustom(event, requestId, identity);
    // Not response.crossws: middleware that sets a header drops it.
    const hooks = getWebSocketHooks(request);
    if (!hooks && response.ok) throw badRequest("Not a WebSocket route");
    return { ...(hooks ? { hooks } : { refusal: response }), isBuiltIn: false };
  }

  const { authorizer } = snapshot;
  const ownership = auth?.ownership === true;
  const routes = () => listRoutes({ table, custom, policy, authorizer, ownership, basePath, devOnly });
  return { snapshot, answer, upgrade, routes };
}

function matched({ context }: H3Event, match: Match<BuiltInRoute> | undefined): void {
  const record = context[requestRecord];
  if (record) record.route = match?.route;
}

const untraced: Tracer = { isOn: () => false, start: () => undefined };
const uncached: HeaderPairs = [["cache-control", "private, no-store"]];
