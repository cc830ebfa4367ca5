import { getWebSocketHooks, type Hooks } from "crossws";
import { H3Event } from "h3";
import { createGate, type Gate } from "../auth/gate.ts";
import type { Snapshot } from "../config/snapshot.ts";
import { unchecked, type Caller, type Identity } from "../core/caller.ts";
import { badRequest, notFound, ServeError } from "../core/error.ts";
import { withIds, type Logger } from "../core/log.ts";
import { runInScope } from "../core/scope.ts";
import type { Tracer } from "../core/trace.ts";
import { createCors, isPreflight } from "../http/cors.ts";
import {
  toEnvelope,
  toErrorEnvelope,
  toWebResponse,
  withHeaders,
  type Answer,
  type HeaderPairs,
} from "../http/envelope.ts";
import { check, toRecord } from "../http/route.ts";
import { EventStream, sseHeaders, type Streams } from "../http/sse.ts";
import type { Match, Table } from "../http/table.ts";
import type { Connection, SocketRoute } from "../sockets/socket.ts";
import type { BuiltInRoute } from "./built-in-routes.ts";
import { createCustomApp, inside, methodNotAllowed, type Inside } from "./custom.ts";
import { createHostCheck, createHostReader } from "./hosts.ts";
import { listRoutes, type ListedRoute } from "./listing.ts";
import { isCrossOrigin, isForeign, isOwn, notAllowed } from "./origins.ts";
import { answerInScope } from "./request-span.ts";

export type Mode = "dev" | "start";
export interface AppOptions {
  readonly snapshot: Snapshot;
  readonly table: Table<BuiltInRoute>;
  readonly streams: Streams;
  readonly mode: Mode;
  readonly logger: Logger;
  readonly tracer: Tracer;
  /** Hears the body keys that no route knows. */
  readonly unknownKey: (route: string, key: string) => void;
}
/** One snapshot, ready to answer. */
export interface App {
  readonly snapshot: Snapshot;
  /** Never rejects. */
  answer(request: Request): Promise<Answer>;
  /** The hooks of a WebSocket request, or the host's own refusal; throws what refuses it. */
  upgrade(request: Request): Promise<{ hooks: Partial<Hooks> | Response; isBuiltIn: boolean }>;
  /** Every route, built in and the host's. */
  routes(): ListedRoute[];
}

/** cors → auth → built-in → custom. */
export function createApp({ snapshot, table, streams, mode, logger, tracer, unknownKey }: AppOptions): App {
  const { server, auth, configureApp } = snapshot.config;
  const { cors: corsOptions, allowedHosts, limits } = server;
  const cors = createCors(corsOptions);
  const isHost = createHostReader();
  const isOurHost = mode === "dev" ? createHostCheck(allowedHosts) : () => true;
  const report = (error: unknown, requestId: string | undefined): void =>
    withIds(logger, { requestId }).error("Request failed", { error });
  const { policy } = snapshot;
  const gate =
    auth &&
    policy &&
    createGate(auth, policy, (error) => logger.error("The authentication provider failed", { error }));
  const custom = createCustomApp({ configureApp, table, report });

  async function answer(request: Request): Promise<Answer> {
    const requestId = nextRequestId();
    let headers: HeaderPairs = [["x-request-id", requestId]];
    try {
      const event = toEvent(request);
      if (corsOptions === false) return withHeaders(await answerInside(event, requestId), headers);
      headers = headers.concat(cors.headers(request));
      const preflight = cors.preflight(request);
      if (preflight) return preflight;
      if (isForeign(request, event.url) && !cors.allows(request.headers.get("origin")!)) throw notAllowed();
      const match = table.find(request.method, event.url.pathname);
      const asked = gate && toAccessRequest(event, request.method, match);
      const identity = asked ? await runInScope({ requestId }, () => gate(request, asked)) : unchecked;
      if (match) return await answerRow(match, event, identity, requestId, headers);
      return withHeaders(await askCustom(event, requestId, identity.caller), headers);
    } catch (error) {
      return toErrorEnvelope(error, headers, (hidden) => report(hidden, requestId));
    }
  }

  /**
   * With `cors: false`, all of it happens inside the host's middleware, which can so set its cross-origin headers on every
   * answer. It cannot answer for a route that refuses the caller. A preflight, which brings no token, runs no route.
   */
  async function answerInside(event: H3Event, requestId: string): Promise<Response> {
    const { req: request, url } = event;
    const isAsking = isPreflight(request);
    const method = isAsking ? request.headers.get("access-control-request-method")! : request.method;
    const match = table.find(method, url.pathname);
    let identity: Identity = unchecked;
    let refusal: unknown;
    try {
      if (gate) identity = await gate(request, toAccessRequest(event, method, match));
      if (isAsking) refusal = methodNotAllowed(table, url.pathname);
    } catch (error) {
      refusal = error;
    }
    if (!refusal) {
      const runRow = async (found: Match<BuiltInRoute>) =>
        toWebResponse(await answerRow(found, event, identity, requestId, []));
      const route = match && { isRefusal: false, run: () => runRow(match) };
      return askCustom(event, requestId, identity.caller, route);
    }
    let isAnswered = true; // by the middleware itself
    async function refuse(): Promise<never> {
      isAnswered = false;
      throw refusal;
    }
    const response = await askCustom(event, requestId, identity.caller, { isRefusal: true, run: refuse });
    const kept = [...response.headers].filter(isCrossOrigin);
    if (isAsking && isAnswered) return toPreflightAnswer(response, kept);
    void response.body?.cancel();
    return toErrorEnvelope(refusal, kept, (hidden) => report(hidden, requestId)).toResponse();
  }

  function askCustom(
    { req, context }: H3Event,
    requestId: string,
    caller: Caller | undefined,
    around?: Inside,
  ): Promise<Response> {
    Object.assign(context, { requestId, logger, authenticatedUser: caller?.user, [inside]: around });
    const ids = { requestId, userId: caller?.userId };
    // A built-in route makes a span of its own.
    if (around) return runInScope(ids, async () => custom.fetch(req));
    return answerInScope(tracer, { request: req, ids }, async () => custom.fetch(req));
  }

  function answerRow(
    match: Match<BuiltInRoute>,
    event: H3Event,
    identity: Identity,
    requestId: string,
    headers: HeaderPairs,
  ): Promise<Answer> {
    const { req: request } = event;
    const ids = { requestId, userId: identity.caller?.userId };
    const asked = { request, ids, route: match.route.path, params: match.params };
    return answerInScope(tracer, asked, async () =>
      toAnswer(await run(match, event, identity, requestId), request, headers, identity),
    );
  }

  function run({ route, params }: Match<BuiltInRoute>, event: H3Event, identity: Identity, requestId: string): unknown {
    if (route.type === "socket") throw new ServeError(426, "Upgrade required", { headers: [["upgrade", "websocket"]] });
    return route.run({
      request: event.req,
      params,
      search: event.url.searchParams,
      identity,
      requestId,
      snapshot,
      limits,
      unknownKey: (key) => unknownKey(`${route.method} ${route.path}`, key),
    });
  }

  function toAnswer(
    value: unknown,
    request: Request,
    headers: HeaderPairs,
    { caller }: Identity,
  ): Answer | Promise<Answer> {
    // A cache knows that what Authorization got is for nobody else; of a cookie or a key it does not.
    const own: HeaderPairs = caller ? headers.concat(uncached) : headers;
    if (value instanceof Response) return withHeaders(value, own);
    if (!(value instanceof EventStream)) return toEnvelope(value, own);
    if (request.method === "HEAD")
      return new Response(null, { headers: [...sseHeaders, ...value.headers, ...headers] });
    return streams.open(value, request.signal).then((response) => withHeaders(response, headers));
  }

  /** h3's view of the request: its url is the path that both routers read, with needless escapes undone. */
  function toEvent(request: Request): H3Event {
    let event: H3Event;
    try {
      event = new H3Event(request);
    } catch (cause) {
      throw badRequest("Bad request", cause); // `/./x` under a Host that no URL can hold
    }
    const host = request.headers.get("host");
    if (host !== null && !isHost(host)) throw badRequest("Bad request: invalid Host header");
    if (!isOurHost(host ?? event.url.host)) throw new ServeError(403, "Host not allowed");
    return event;
  }

  async function upgrade(request: Request): ReturnType<App["upgrade"]> {
    const event = toEvent(request);
    const origin = request.headers.get("origin");
    if (origin !== null && !isOwn(origin, event.url) && !cors.allows(origin)) throw notAllowed();
    const match = table.find("GET", event.url.pathname);
    const identity = gate
      ? await gate(request, { ...toAccessRequest(event, "GET", match), isUpgrade: true })
      : unchecked;
    if (match?.route.type === "socket") {
      return { hooks: toHooks(match.route, event.url.searchParams, identity), isBuiltIn: true };
    }
    if (match) throw notFound();
    const response = await askCustom(event, nextRequestId(), identity.caller);
    // Not response.crossws: a middleware that sets a header drops it.
    const hooks = getWebSocketHooks(request);
    if (!hooks && response.ok) throw badRequest("Not a WebSocket route");
    return { hooks: hooks ?? response, isBuiltIn: false };
  }

  return { snapshot, answer, upgrade, routes: () => listRoutes(table, custom, policy) };
}

/** It needs no body, unless it says what is wrong. */
function toPreflightAnswer({ status, body, headers }: Response, kept: HeaderPairs): Response {
  if (status < 400) void body?.cancel();
  if (status < 400) return new Response(null, { status, headers: kept });
  const type = headers.get("content-type");
  return new Response(body, { status, headers: type ? [...kept, ["content-type", type]] : kept });
}

const uncached: HeaderPairs = [["cache-control", "private, no-store"]];

/** What the policy is asked: by the route that matched, and by the path that the routers read. */
function toAccessRequest(
  { url }: H3Event,
  method: string,
  match: Match<BuiltInRoute> | undefined,
): Parameters<Gate>[1] {
  return { method, path: url.pathname, search: url.searchParams, route: match?.route };
}

/** Whoever asks for what there is not is told so in the socket's own way: a browser shows nobody why a handshake failed. */
function toHooks(route: SocketRoute, search: URLSearchParams, identity: Identity): Partial<Hooks> {
  let connection: Connection | undefined;
  return {
    open(peer) {
      try {
        const query = route.query && check(route.query, toRecord(search), "query");
        connection = route.connect(peer, { query, identity });
      } catch (error) {
        if (!(error instanceof ServeError)) throw error;
        peer.send(JSON.stringify({ type: "ERROR", success: false, error: error.message }));
        peer.close(1008, "Invalid query");
      }
    },
    message: (_, message) => connection?.message?.(message.text()),
    drain: () => connection?.drain?.(),
    close: () => connection?.close?.(),
  };
}

const prefix = crypto.randomUUID().slice(0, 8);
let count = 0;
const nextRequestId = (): string => `${prefix}-${(++count).toString(36)}`;
