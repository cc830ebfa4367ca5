import { STATUS_CODES, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Hooks, Peer } from "crossws";
import nodeAdapter from "crossws/adapters/node";
import { NodeRequest } from "srvx/node";
import { ServeError } from "../core/error.ts";
import { toErrorEnvelope } from "../http/envelope.ts";

export interface UpgradeOptions {
  /** The hooks for a request, or what refuses it. Called once the handshake is known to be well-formed. */
  readonly resolve: (request: Request, socket: Duplex) => Promise<Partial<Hooks>>;
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
export function createUpgrade(options: UpgradeOptions): Upgrade {
  const { resolve, report, sockets, socketMessageBytes } = options;
  const hooksOf = new WeakMap<object, Partial<Hooks>>();
  const open = new Set<Duplex>();
  const adapter = nodeAdapter({
    serverOptions: { maxPayload: socketMessageBytes },
    // Sync: an `open` hook that is resolved later loses messages that came with the handshake.
    resolve: (request) => hooksOf.get(request) ?? {},
  });

  async function handle(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => socket.destroy()); // a peer that resets during the handshake must not end the process
    try {
      if (open.size >= sockets) throw new ServeError(503, "Too many sockets", { headers: [["retry-after", "5"]] });
      if (!isHandshake(req)) throw new ServeError(400, "Not a WebSocket handshake");
      open.add(socket);
      socket.once("close", () => open.delete(socket));
      const request = new NodeRequest({ req });
      hooksOf.set(request, guard(await resolve(request, socket), options));
      await adapter.handleUpgrade(req, socket, head, request);
    } catch (error) {
      const { status, headers, text } = toErrorEnvelope(error, [["connection", "close"]], report);
      refuse(socket, status, headers, text);
    }
  }

  return {
    handle,
    close: () => adapter.closeAll(1001, "Server is going away"),
    terminate: () => open.forEach((socket) => socket.destroy()),
  };
}

/** crossws awaits no hook: one that throws, ours or the host's, would be an unhandled rejection and the end of the process. */
function guard(hooks: Partial<Hooks>, { report, socketBufferBytes }: UpgradeOptions): Partial<Hooks> {
  const guarded: Record<string, unknown> = { ...hooks };
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
      // Who asks without reading the answers would have us keep them all.
      if ((peer.websocket.bufferedAmount ?? 0) > socketBufferBytes) peer.terminate();
    };
  }
  return guarded as Partial<Hooks>;
}

/** What `ws` itself would refuse, in a shape of its own. */
function isHandshake({ method, headers }: IncomingMessage): boolean {
  return (
    method === "GET" &&
    headers.upgrade?.toLowerCase() === "websocket" &&
    /^[+/0-9A-Za-z]{22}==$/.test(headers["sec-websocket-key"] ?? "") &&
    (headers["sec-websocket-version"] === "13" || headers["sec-websocket-version"] === "8")
  );
}

/** A response on a bare socket: refused upgrades, and what Node could not parse. */
export function refuse(socket: Duplex, status: number, headers: [string, string][], text: string): void {
  if (!socket.writable) return void socket.destroy();
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(text)}`,
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`);
}
