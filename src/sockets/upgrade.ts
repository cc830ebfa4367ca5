import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Hooks, Peer } from "crossws";
import nodeAdapter from "crossws/adapters/node";
import { NodeRequest } from "srvx/node";
import { busy, ServeError } from "../core/error.ts";
import { nextRequestId, requestIdHeader } from "../http/request-id.ts";
import { isResponse, toErrorEnvelope, toWebResponse, withHeaders } from "../http/envelope.ts";
import { refuse } from "../http/refuse.ts";
import { tokenProtocol } from "./socket.ts";

/** The hooks for a request, or the response that refuses it. */
export type Upgraded =
  | { readonly hooks: Partial<Hooks>; readonly refusal?: undefined }
  | { readonly hooks?: undefined; readonly refusal: Response };

export interface UpgradeOptions {
  readonly resolve: (request: Request, socket: Duplex, requestId: string) => Promise<Upgraded>;
  readonly report: (error: unknown) => void;
  /** Called when a socket has opened or closed. */
  readonly counted: (change: 1 | -1) => void;
  readonly sockets: number;
  readonly socketMessageBytes: number;
  readonly socketBufferBytes: number;
}
export interface Upgrade {
  handle(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>;
  /** Sends the close code 1001 (going away) to every peer. */
  close(): void;
  /** Destroys the sockets that are still open. */
  terminate(): void;
}

/** Creates one crossws adapter for listhen and node:http. It is created here so that its sockets can be closed. */
export function createUpgrade({ resolve, report, counted, ...limits }: UpgradeOptions): Upgrade {
  const hooksOf = new WeakMap<object, Partial<Hooks>>();
  const open = new Set<Duplex>();
  const peers = new Set<Peer>();
  const adapter = nodeAdapter({
    serverOptions: { maxPayload: limits.socketMessageBytes },
    // Resolved synchronously: a later `open` hook would miss the messages that arrive with the handshake.
    resolve: (request) => hooksOf.get(request) ?? {},
    // A browser that offers protocols expects one of them back, and it must not be the token. The choice of a custom
    // hook wins.
    handleProtocols: (offered) => (offered.has(tokenProtocol) ? tokenProtocol : undefined),
    hooks: {
      open(peer) {
        peers.add(peer);
        counted(1);
      },
      close: (peer) => void (peers.delete(peer) && counted(-1)),
    },
  });
  // A sender without back-pressure (a timer, a log) would otherwise fill the memory for a peer that does not read.
  const sweep = setInterval(() => {
    for (const peer of peers) if ((peer.websocket.bufferedAmount ?? 0) > limits.socketBufferBytes) peer.terminate();
  }, 250).unref();

  async function handle(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => socket.destroy()); // a peer that resets during the handshake must not crash the process
    const isOver = open.size >= limits.sockets;
    const requestId = nextRequestId();
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    try {
      if (isOver) throw busy("Too many sockets", 5);
      if (!isHandshake(req)) throw new ServeError(400, "Not a WebSocket handshake");
      const request = new NodeRequest({ req });
      const { hooks, refusal } = await resolve(request, socket, requestId);
      if (refusal) return refuse(socket, await toAnswer(withHeaders(refusal, [requestIdHeader(requestId)])));
      hooksOf.set(request, guard(hooks, report, requestId));
      await adapter.handleUpgrade(req, socket, head, request);
    } catch (error) {
      const headers = [requestIdHeader(requestId)];
      try {
        refuse(socket, toErrorEnvelope(error, headers, report));
      } catch (invalid) {
        refuse(socket, toErrorEnvelope(invalid, headers, report)); // a header of the refusal, which this one lacks
      }
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

/** Catches errors of hooks. crossws does not await a hook: its rejection would be unhandled and crash the process. */
function guard(hooks: Partial<Hooks>, report: (error: unknown) => void, requestId: string): Partial<Hooks> {
  const upgrade = guardUpgrade(hooks.upgrade, report, requestId);
  const guarded: Record<string, unknown> = { ...hooks, upgrade };
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

/**
 * An `upgrade` hook refuses by a Response, returned or thrown. Any other error is a failure, and gets an error
 * envelope. Every response has the id of the request, also 101.
 */
function guardUpgrade(
  upgrade: Hooks["upgrade"] | undefined,
  report: (error: unknown) => void,
  requestId: string,
): Hooks["upgrade"] {
  const header = requestIdHeader(requestId);
  return async (request) => {
    try {
      const accepted = await upgrade?.(request);
      // crossws knows only the global class.
      if (isResponse(accepted)) return withHeaders(toWebResponse(accepted), [header]);
      const headers = new Headers(accepted?.headers);
      headers.set(...header);
      return { ...accepted, headers };
    } catch (error) {
      if (isResponse(error)) return withHeaders(toWebResponse(error), [header]);
      return toErrorEnvelope(error, [header], report).toResponse();
    }
  };
}

async function toAnswer(response: Response): Promise<{ status: number; headers: [string, string][]; text: string }> {
  const headers = [...response.headers].filter(([name]) => !hopByHop.has(name));
  return { status: response.status, headers, text: await response.text() };
}
const hopByHop = new Set(["connection", "content-length", "transfer-encoding"]);

/** Checks what `ws` would check itself. `ws` refuses with its own response, outside the envelope. */
function isHandshake({ method, headers }: IncomingMessage): boolean {
  return (
    method === "GET" &&
    headers.upgrade?.toLowerCase() === "websocket" &&
    /^[+/0-9A-Za-z]{22}==$/.test(headers["sec-websocket-key"] ?? "") &&
    (headers["sec-websocket-version"] === "13" || headers["sec-websocket-version"] === "8")
  );
}
