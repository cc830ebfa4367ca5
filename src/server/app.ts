import { getWebSocketHooks, type Hooks } from "crossws";
import { H3Event } from "h3";
import type { Snapshot } from "../config/snapshot.ts";
import { badRequest, notFound, ServeError } from "../core/error.ts";
import type { Logger } from "../core/log.ts";
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
import { builtIn, createCustomApp, methodNotAllowed, type CustomContext } from "./custom.ts";
import { createHostCheck } from "./hosts.ts";
import type { Row } from "./rows.ts";

export type Mode = "dev" | "start";
export interface AppOptions {
  readonly snapshot: Snapshot;
  readonly table: Table<Row>;
  readonly streams: Streams;
  readonly mode: Mode;
  readonly logger: Logger;
  /** Hears the body keys that no row knows. */
  readonly unknownKey: (route: string, key: string) => void;
}
/** One snapshot, ready to answer. */
export interface App {
  readonly snapshot: Snapshot;
  /** Never rejects. */
  answer(request: Request): Promise<Answer>;
  /** The hooks of a WebSocket request; throws what refuses it. */
  upgrade(request: Request): Promise<Partial<Hooks> | Response>;
}

/** cors → built-in → custom. */
export function createApp({ snapshot, table, streams, mode, logger, unknownKey }: AppOptions): App {
  const { cors: corsOptions, allowedHosts, limits } = snapshot.config.server;
  const cors = createCors(corsOptions);
  const isOurHost = mode === "dev" ? createHostCheck(allowedHosts) : () => true;
  const report = (error: unknown, requestId: string | undefined): void =>
    logger.error("Request failed", { error, requestId });
  const custom = createCustomApp({ configureApp: snapshot.config.configureApp, table, report });

  async function answer(request: Request): Promise<Answer> {
    const requestId = nextRequestId();
    let headers: HeaderPairs = [["x-request-id", requestId]];
    try {
      const event = toEvent(request);
      headers = headers.concat(cors.headers(request));
      const preflight = cors.preflight(request);
      if (preflight) return preflight;
      const match = table.find(request.method, event.url.pathname);
      const row = match && (() => run(match, event, requestId));
      if (row && corsOptions !== false) return await toAnswer(await row(), request, headers);
      const context: CustomContext = { requestId };
      // With `cors: false` a preflight reaches the host's middleware and no route: an `app.all()` would run for anybody.
      if (isPreflight(request)) context[builtIn] = () => Promise.reject(methodNotAllowed(table, event.url.pathname));
      else if (row) context[builtIn] = async () => toWebResponse(await toAnswer(await row(), request, []));
      Object.assign(event.context, context);
      return withHeaders(await custom.fetch(request), headers);
    } catch (error) {
      return toErrorEnvelope(error, headers, (hidden) => report(hidden, requestId));
    }
  }

  function run({ row, params }: Match<Row>, event: H3Event, requestId: string): unknown {
    if (row.type === "socket") throw new ServeError(426, "Upgrade required", { headers: [["upgrade", "websocket"]] });
    return row.run({
      request: event.req,
      params,
      search: event.url.searchParams,
      caller: undefined,
      requestId,
      snapshot,
      limits,
      unknownKey: (key) => unknownKey(`${row.method} ${row.path}`, key),
    });
  }

  function toAnswer(value: unknown, request: Request, headers: HeaderPairs): Answer | Promise<Answer> {
    if (value instanceof Response) return withHeaders(value, headers);
    if (!(value instanceof EventStream)) return toEnvelope(value, headers);
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
    if (!isOurHost(request.headers.get("host") ?? event.url.host)) throw new ServeError(403, "Host not allowed");
    return event;
  }

  async function upgrade(request: Request): Promise<Partial<Hooks> | Response> {
    const event = toEvent(request);
    const origin = request.headers.get("origin");
    if (origin !== null && !isOwn(origin, event.url) && !cors.allows(origin)) {
      throw new ServeError(403, "Origin not allowed");
    }
    const match = table.find("GET", event.url.pathname);
    if (match?.row.type === "socket") return toHooks(match.row, event.url.searchParams);
    if (match) throw notFound();
    const response = await custom.fetch(request);
    // Not response.crossws: a middleware that sets a header drops it.
    const hooks = getWebSocketHooks(request);
    if (hooks) return hooks;
    if (response.ok) throw badRequest("Not a WebSocket route");
    return response;
  }

  return { snapshot, answer, upgrade };
}

/** By host: behind a proxy that ends TLS, our scheme is not the one that the browser sees. */
function isOwn(origin: string, { host }: URL): boolean {
  return URL.parse(origin)?.host === host;
}

function toHooks(row: SocketRoute, search: URLSearchParams): Partial<Hooks> {
  const query = row.query && check(row.query, toRecord(search), "query");
  let connection: Connection | undefined;
  return {
    open: (peer) => void (connection = row.connect(peer, query)),
    message: (_, message) => connection?.message?.(message.text()),
    close: () => connection?.close?.(),
  };
}

const prefix = crypto.randomUUID().slice(0, 8);
let count = 0;
const nextRequestId = (): string => `${prefix}-${(++count).toString(36)}`;
