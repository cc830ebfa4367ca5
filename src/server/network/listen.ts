import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import type { Bounds } from "../../config/limits.ts";
import { createUpgrade, type Upgrade, type UpgradeOptions } from "../../sockets/upgrade.ts";
import type { Mode } from "../app.ts";
import { trackConnections } from "./connections.ts";
import { inTurn } from "./in-turn.ts";
import type { Listener } from "./listener.ts";
import { freePort, portTaken } from "./port.ts";
import { cutStalled } from "./stalled.ts";
import { answerUnparsed } from "./unparsed.ts";

export interface ListenOptions {
  /** `dev` runs on listhen, `start` on node:http. The listener and everything behind it are the same. */
  readonly mode: Mode;
  readonly port: number;
  readonly host: string;
  /** True if the next free port may be used in place of a taken one. */
  readonly mayMove: boolean;
  /** In `dev`: serves https with a self-signed certificate. @default false */
  readonly https?: boolean | undefined;
  readonly listener: Listener;
  readonly resolve: UpgradeOptions["resolve"];
  readonly countedSocket: UpgradeOptions["counted"];
  readonly report: (error: unknown) => void;
  readonly warn: (message: string, data: Record<string, unknown>) => void;
  readonly limits: Bounds;
}
/** A server that listens on a port. */
export interface ListeningServer {
  /** The URL of the server, with its base path. For example `http://127.0.0.1:3141`. */
  readonly url: string;
  /** The bound port. */
  readonly port: number;
  /**
   * Closes the port. Sockets get the close code 1001, and requests may finish within `drainMs`. Connections that remain
   * are then cut, but not before `answered` has resolved.
   */
  close(options?: { drainMs?: number; answered?: Promise<unknown> }): Promise<void>;
}

export async function listen(options: ListenOptions): Promise<ListeningServer> {
  keepRequestsYoung();
  const { host, limits, report } = options;
  const listener = inTurn(options.listener);
  const upgrade = createUpgrade({ ...limits, report, resolve: options.resolve, counted: options.countedSocket });
  const openOptions = { options, listener, upgrade };
  const server = await (options.mode === "dev" ? openListhen(openOptions) : openNode(openOptions));
  server.keepAliveTimeout = keepAliveMs;
  answerUnparsed(server);
  const connections = trackConnections(server);
  const stopCutting = cutStalled(connections.busy, limits.responseStallMs);
  limitConnections(server, limits.maxConnections, options.warn);
  const { port: bound } = server.address() as AddressInfo;
  const scheme = options.mode === "dev" && options.https ? "https" : "http";
  return { url: `${scheme}://${toUrlHost(host)}:${bound}`, port: bound, close };

  async function close({ drainMs = limits.drainMs, answered = Promise.resolve() } = {}): Promise<void> {
    const closed = once(server, "close");
    server.close();
    connections.close();
    upgrade.close();
    // A peer that never answers the close frame must not use up the grace period of all others.
    const cut = setTimeout(() => upgrade.terminate(), Math.min(1_000, drainMs));
    const over = new AbortController();
    const rest = (ms: number) => sleep(ms, undefined, { signal: over.signal });
    // Callers that waited for the engine get time to read their response first.
    const force = Promise.all([rest(drainMs), answered.then(() => rest(answerMs))]);
    force.then(
      () => server.closeAllConnections(),
      () => {}, // aborted: every connection has closed in time
    );
    await closed;
    stopCutting();
    clearTimeout(cut);
    over.abort();
  }
}

interface OpenOptions {
  readonly options: ListenOptions;
  readonly listener: Listener;
  readonly upgrade: Upgrade;
}

async function openListhen({ options, listener, upgrade }: OpenOptions): Promise<HttpServer> {
  const { listen: listhen } = await import("listhen"); // takes 55 ms, which `start` saves
  const port = await freePort(options);
  const open = (): ReturnType<typeof listhen> =>
    listhen(listener, {
      port,
      hostname: options.host,
      showURL: false,
      autoClose: false,
      isProd: false,
      https: options.https ?? false,
      // listhen calls it with (req, socket, head), but declares fewer parameters.
      ws: upgrade.handle as never,
    });
  const opened = await unlessTaken(port, open);
  if (opened && (port === 0 || opened.address.port === port)) return opened.server as HttpServer;
  // Another process was faster. If listhen has noticed, it has chosen a different port.
  await opened?.close();
  if (options.mayMove) return openListhen({ options, listener, upgrade });
  throw portTaken(port);
}

async function openNode({ options, listener, upgrade }: OpenOptions): Promise<HttpServer> {
  const { requestMs: requestTimeout, headersMs } = options.limits;
  const headersTimeout = Math.min(headersMs, requestTimeout); // Node accepts no more than requestTimeout
  const connectionsCheckingInterval = Math.min(1_000, headersTimeout, requestTimeout);
  const opening = createServer({ headersTimeout, requestTimeout, connectionsCheckingInterval }, listener);
  opening.on("upgrade", (req, socket, head) => void upgrade.handle(req, socket, head));
  opening.listen(await freePort(options), options.host);
  await once(opening, "listening"); // rejects if "error" comes first
  return opening.on("error", options.report);
}

/**
 * Runs a function that opens a server at a port. Resolves to undefined if the port is in use: listhen does not handle
 * that error of its server, so it would be an uncaught exception.
 */
async function unlessTaken<T>(port: number, open: () => Promise<T>): Promise<T | undefined> {
  const failed = Promise.withResolvers<undefined>();
  const onError = (error: NodeJS.ErrnoException): void =>
    error.code === "EADDRINUSE" ? failed.resolve(undefined) : failed.reject(error);
  const servers: HttpServer[] = [];
  const onListen = (message: unknown): void => {
    const { server, options } = message as { server: HttpServer; options?: { port?: number } };
    // A server without a request listener is a probe of the port.
    if (options?.port === port && server.listenerCount("request") > 0) servers.push(server.once("error", onError));
  };
  subscribe(listenChannel, onListen);
  try {
    return await Promise.race([open(), failed.promise]);
  } finally {
    unsubscribe(listenChannel, onListen);
    for (const server of servers) server.off("error", onError);
  }
}
const listenChannel = "tracing:net.server.listen:asyncStart";

/**
 * Turns off V8's pretenuring, for the whole process. The requests of open streams survive, so V8 learns that the objects of a
 * request are old, and allocates the objects of later requests in the old generation. Each would retain what it refers to until
 * the next full collection.
 */
function keepRequestsYoung(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
}

/** Closes further connections at once. Logs that at most once a minute. */
function limitConnections(server: HttpServer, maxConnections: number, warn: ListenOptions["warn"]): void {
  let quietUntil = 0;
  server.maxConnections = maxConnections;
  server.on("drop", () => {
    if (performance.now() < quietUntil) return;
    quietUntil = performance.now() + 60_000;
    warn("A connection was closed: limits.maxConnections is reached", { maxConnections });
  });
}

/**
 * Idle time before a connection is closed. Common proxies (nginx, AWS) close theirs after 60 s and must be first: a request on
 * a connection that the server closes becomes a 502. Node's default is 5 s.
 */
const keepAliveMs = 75_000;

/** The part of `drainMs` that is reserved for writing and reading the last responses. */
export const answerMs = 250;

const toUrlHost = (host: string): string => (host.includes(":") ? `[${host}]` : host);
