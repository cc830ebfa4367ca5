import { once } from "node:events";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Limits } from "../config/limits.ts";
import { createUpgrade, type UpgradeOptions } from "../sockets/upgrade.ts";
import type { Mode } from "./app.ts";
import { trackConnections } from "./connections.ts";
import type { Listener } from "./listener.ts";
import { freePort, portTaken } from "./port.ts";
import { answerUnparsed } from "./unparsed.ts";

export interface ListenOptions {
  /** listhen hosts `dev`, node:http `start`; the listener and everything after it are the same. */
  readonly mode: Mode;
  readonly port: number;
  readonly host: string;
  /** Whether a taken port may be left for the next free one. */
  readonly mayMove: boolean;
  /** In `dev`: with a certificate signed by itself. */
  readonly https?: boolean | undefined;
  readonly listener: Listener;
  readonly resolve: UpgradeOptions["resolve"];
  readonly report: (error: unknown) => void;
  readonly limits: Limits;
}
export interface ListeningServer {
  readonly url: string;
  readonly port: number;
  /** Sockets hear 1001, requests get their grace; then whatever is left is cut, but not before `answered`. */
  close(answered?: Promise<unknown>): Promise<void>;
}

export async function listen(options: ListenOptions): Promise<ListeningServer> {
  const { listener, host, limits, report } = options;
  const upgrade = createUpgrade({ ...limits, report, resolve: options.resolve });
  const port = await freePort(options);
  const server = options.mode === "dev" ? await openListhen() : await openNode();
  answerUnparsed(server);
  const connections = trackConnections(server);
  const { port: bound } = server.address() as AddressInfo;
  const scheme = options.mode === "dev" && options.https ? "https" : "http";
  return { url: `${scheme}://${toUrlHost(host)}:${bound}`, port: bound, close };

  async function openListhen(): Promise<HttpServer> {
    const { listen: listhen } = await import("listhen"); // 55 ms that `start` need not wait for
    const opened = await listhen(listener, {
      port,
      hostname: host,
      showURL: false,
      autoClose: false,
      isProd: false,
      https: options.https ?? false,
      // It calls what it is given with (req, socket, head), and declares less.
      ws: upgrade.handle as never,
    });
    if (port !== 0 && opened.address.port !== port) {
      await opened.close(); // somebody was faster, and it has jumped to a port of its own choice
      throw portTaken(port);
    }
    return opened.server as HttpServer;
  }

  async function openNode(): Promise<HttpServer> {
    const { requestMs: requestTimeout } = limits;
    const headersTimeout = Math.min(limits.headersMs, requestTimeout); // Node refuses more
    const connectionsCheckingInterval = Math.min(1_000, headersTimeout, requestTimeout);
    const opening = createServer({ headersTimeout, requestTimeout, connectionsCheckingInterval }, listener);
    opening.on("upgrade", (req, socket, head) => void upgrade.handle(req, socket, head));
    opening.listen(port, host);
    await once(opening, "listening"); // rejects with what "error" brings first
    return opening.on("error", report);
  }

  async function close(answered: Promise<unknown> = Promise.resolve()): Promise<void> {
    const closed = once(server, "close");
    server.close();
    connections.close();
    upgrade.close();
    // A peer that never answers our close frame must not use up the grace of everybody else.
    const cut = setTimeout(() => upgrade.terminate(), Math.min(1_000, limits.drainMs));
    const over = new AbortController();
    const rest = (ms: number) => sleep(ms, undefined, { signal: over.signal });
    // Not before those who waited for the engine have had time to read what it told them last.
    const force = Promise.all([rest(limits.drainMs), answered.then(() => rest(answerMs))]);
    force.then(
      () => server.closeAllConnections(),
      () => {}, // closed by itself
    );
    await closed;
    clearTimeout(cut);
    over.abort();
  }
}

/** What is kept of `drainMs` for the last answers to be written and read. */
export const answerMs = 250;

const toUrlHost = (host: string): string => (host.includes(":") ? `[${host}]` : host);
