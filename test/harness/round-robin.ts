import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";

/** An HTTP proxy that sends each request, and each WebSocket, to the next of several servers. */
export interface RoundRobin {
  readonly url: string;
  close(): Promise<void>;
}

export async function createRoundRobin(urls: readonly string[]): Promise<RoundRobin> {
  let turn = 0;
  const next = (): URL => new URL(urls[turn++ % urls.length]!);

  const forward = (incoming: IncomingMessage, response: ServerResponse): void => {
    const { hostname, port } = next();
    const { method, url: path, rawHeaders: headers } = incoming;
    const outgoing = request({ hostname, port, method, path, headers, agent: false, setHost: false });
    outgoing.on("response", (answer) => {
      response.writeHead(answer.statusCode!, answer.statusMessage, answer.rawHeaders);
      response.flushHeaders();
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    outgoing.on("error", () => response.destroy());
    response.on("close", () => outgoing.destroy());
    incoming.pipe(outgoing);
  };

  const upgrade = (incoming: IncomingMessage, socket: Socket, head: Buffer): void => {
    const { hostname, port } = next();
    const upstream = connect(Number(port), hostname, () => {
      const { rawHeaders: pairs } = incoming;
      const lines = pairs.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${pairs[index + 1]}`] : []));
      upstream.write(`${[`${incoming.method} ${incoming.url} HTTP/1.1`, ...lines].join("\r\n")}\r\n\r\n`);
      upstream.write(head);
      socket.pipe(upstream).pipe(socket);
    });
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
  };

  const server = createServer(forward);
  server.on("upgrade", upgrade);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // it listens on a port
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
