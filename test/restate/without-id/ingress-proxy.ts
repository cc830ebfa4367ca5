import {
  createServer,
  request as requestHttp,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";

/** A connection to cut, in place of an answer. */
export interface Cut {
  /** False: Restate does not get the request. */
  readonly isForwarded: boolean;
  /** The moment at which the connection is cut. Without one, it is when Restate has answered. */
  readonly until?: Promise<unknown>;
}

/** A proxy in front of Restate's ingress that cuts connections. `toCut` decides by the body of a request. */
export class IngressProxy {
  readonly #server: Server;

  private constructor(upstream: string, toCut: (body: string) => Cut | undefined) {
    this.#server = createServer((request, response) => void forward(upstream, toCut, request, response));
  }

  static async start(upstream: string, toCut: (body: string) => Cut | undefined): Promise<IngressProxy> {
    const proxy = new IngressProxy(upstream, toCut);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`; // it listens on a port
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

async function forward(
  upstream: string,
  toCut: (body: string) => Cut | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let body = "";
  request.setEncoding("utf8");
  for await (const part of request) body += part;
  const cut = toCut(body);
  const drop = (): void => void request.socket.resetAndDestroy();
  if (cut && !cut.isForwarded) return drop();
  const { method, headers, url } = request;
  const outgoing = requestHttp(upstream + url, { method, headers, agent: false });
  // Restate gets the whole request, also if the connection is cut before.
  if (!cut) response.on("close", () => outgoing.destroy());
  outgoing.on("error", drop);
  outgoing.on("response", (answer) => {
    if (!cut) {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.on("error", drop).pipe(response);
    } else if (!cut.until) answer.resume().on("end", drop);
    else answer.resume(); // it is lost
  });
  outgoing.end(body);
  void cut?.until?.then(drop, drop);
}
