import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Hooks, Peer } from "crossws";
import nodeAdapter from "crossws/adapters/node";
import { NodeRequest } from "srvx/node";
import { busy, ServeError } from "../core/error.ts";
import { toErrorEnvelope } from "../http/envelope.ts";
import { refuse } from "../http/refuse.ts";
import { tokenProtocol } from "./socket.ts";

export interface UpgradeOptions {
  /** The hooks for a request, or the response that refuses it. */
  readonly resolve: (request: Request, socket: Duplex) => Promise<Partial<Hooks> | Response>;
  readonly report: (error: unknown) => void;
  readonly sockets: number;
  readonly socketMessageBytes: number;
  readonly socketBufferBytes: number;
}
export interface Upgrade {
  handle(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>;
  /** Tells every peer that the server goes away. */
  close(): void;
  /** Cuts those who did not listen. */
  terminate(): void;
}

/** One crossws adapter for either host; it is ours, so that somebody can close the sockets. */
export function createUpgrade({ resolve, report, ...limits }: UpgradeOptions): Upgrade {
  const hooksOf = new WeakMap<object, Partial<Hooks>>();
  const open = new Set<Duplex>();
  const peers = new Set<Peer>();
  const adapter = nodeAdapter({
    serverOptions: { maxPayload: limits.socketMessageBytes },
    // Sync: an `open` hook that is resolved later loses messages that came with the handshake.
    resolve: (request) => hooksOf.get(request) ?? {},
    // A browser that offers protocols wants one of them back; never the token. What the host's own hook chooses comes first.
    handleProtocols: (offered) => (offered.has(tokenProtocol) ? tokenProtocol : undefined),
    hooks: { open: (peer) => void peers.add(peer), close: (peer) => void peers.delete(peer) },
  });
  // Whoever sends without looking (a timer, a log) would have us keep everything for a reader who has stopped.
  const sweep = setInterval(() => {
    for (const peer of peers) if (peer.websocket.bufferedAmount! > limits.socketBufferBytes) peer.terminate();
  }, 250).unref();

  async function handle(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => socket.destroy()); // a peer that resets during the handshake must not end the process
    const isOver = open.size >= limits.sockets;
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    try {
      if (isOver) throw busy("Too many sockets", 5);
      if (!isHandshake(req)) throw new ServeError(400, "Not a WebSocket handshake");
      const request = new NodeRequest({ req });
      const hooks = await resolve(request, socket);
      if (hooks instanceof Response) return refuse(socket, await toAnswer(hooks));
      hooksOf.set(request, guard(hooks, report));
      await adapter.handleUpgrade(req, socket, head, request);
    } catch (error) {
      refuse(socket, toErrorEnvelope(error, [], report));
    }
  }

  return {
    handle,
    close() {
      clearInterval(sweep);
      adapter.closeAll(1001, "Server is going away");
    },
    terminate: () => open.forEach((socket) => socket.destroy()),
  };
}

/** crossws awaits no hook: one that throws, ours or the host's, would be an unhandled rejection and the end of the process. */
function guard(hooks: Partial<Hooks>, report: (error: unknown) => void): Partial<Hooks> {
  const guarded: Record<string, unknown> = { ...hooks, upgrade: hooks.upgrade && guardUpgrade(hooks.upgrade, report) };
  for (const name of ["open", "message", "close", "error", "drain"] as const) {
    const hook = hooks[name] as ((peer: Peer, detail: unknown) => unknown) | undefined;
    if (!hook) continue;
    guarded[name] = async (peer: Peer, detail: unknown) => {
      try {
        await hook(peer, detail);
      } catch (error) {
        report(error);
        peer.close(1011, "Internal error");
      }
    };
  }
  return guarded as Partial<Hooks>;
}

/** An `upgrade` hook refuses by throwing a Response. Anything else it throws is a failure, and ours to answer. */
function guardUpgrade(upgrade: NonNullable<Hooks["upgrade"]>, report: (error: unknown) => void): Hooks["upgrade"] {
  return async (request) => {
    try {
      return await upgrade(request);
    } catch (error) {
      if (error instanceof Response) return error;
      return toErrorEnvelope(error, [], report).toResponse();
    }
  };
}

async function toAnswer(response: Response): Promise<{ status: number; headers: [string, string][]; text: string }> {
  const headers = [...response.headers].filter(([name]) => !hopByHop.has(name));
  return { status: response.status, headers, text: await response.text() };
}
const hopByHop = new Set(["connection", "content-length", "transfer-encoding"]);

/** What `ws` itself would refuse, in a shape of its own. */
function isHandshake({ method, headers }: IncomingMessage): boolean {
  return (
    method === "GET" &&
    headers.upgrade?.toLowerCase() === "websocket" &&
    /^[+/0-9A-Za-z]{22}==$/.test(headers["sec-websocket-key"] ?? "") &&
    (headers["sec-websocket-version"] === "13" || headers["sec-websocket-version"] === "8")
  );
}
