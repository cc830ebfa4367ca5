import { Agent, request, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { within } from "../../harness/waiting.ts";

/**
 * Asks over one connection that stays open, or over a new one each time: of several that stay open, one may be idle for so
 * long that the server closes it just when it is used again.
 */
export interface Client {
  /** Rejects unless the answer is a success. */
  ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<any>;
  /** The status alone. */
  status(path: string): Promise<number>;
  /** An answer that is read as it comes. */
  open(...asked: Parameters<Client["ask"]>): Promise<IncomingMessage>;
  readonly connections: { opened: number; lost: string[] };
  close(): void;
}

export function createClient(base: string, { keepAlive }: { keepAlive: boolean }): Client {
  const agent = new Agent({ keepAlive, maxSockets: keepAlive ? 1 : Infinity });
  const connections = { opened: 0, lost: [] as string[] };
  let closed = false;

  function send(...[method, path, body, more]: Parameters<Client["ask"]>): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const headers = { "content-type": "application/json", ...more };
    const sent = request(base + path, { agent, method, headers }, resolve);
    sent.on("error", (error) => reject(new Error(`${method} ${path}: ${error.message}`, { cause: error })));
    sent.on("socket", (socket) => {
      if (!socket.connecting) return;
      connections.opened++;
      socket.on("error", (error) => void (closed || connections.lost.push(`${path}: ${error.message}`)));
    });
    sent.end(body === undefined ? undefined : JSON.stringify(body));
    return within(promise, () => `an answer to ${method} ${path}`);
  }

  async function open(...asked: Parameters<Client["ask"]>): Promise<IncomingMessage> {
    const [method, path] = asked;
    const response = await send(...asked);
    const { statusCode = 0 } = response;
    if (statusCode >= 200 && statusCode < 300) return response;
    throw new Error(`${method} ${path} was answered ${statusCode}: ${await text(response)}`);
  }
  return {
    async ask(...asked) {
      const [method, path] = asked;
      const response = await open(...asked);
      return JSON.parse(await within(text(response), () => `the whole answer to ${method} ${path}`));
    },
    async status(path) {
      const response = await send("GET", path);
      response.resume();
      return response.statusCode!;
    },
    open,
    connections,
    close() {
      closed = true;
      agent.destroy();
    },
  };
}
