import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { socketFaults, type Faults } from "./faults.ts";

/** A port in front of a server. What the server writes is cut off or held back now and then; requests arrive whole. */
export interface FaultyProxy {
  readonly url: string;
  close(): Promise<void>;
}

export async function createFaultyProxy(port: number, faults: Faults): Promise<FaultyProxy> {
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(port, "127.0.0.1");
    const cut = (): void => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on("error", cut);
      socket.on("close", () => {
        sockets.delete(socket);
        cut();
      });
    }
    client.pipe(server);
    server.on("data", (chunk) => {
      const fault = faults.next(...socketFaults);
      if (fault === "socket is cut") return cut();
      if (fault === "socket is cut inside") {
        server.destroy();
        return void client.end(chunk.subarray(0, Math.floor(chunk.length / 2)));
      }
      // Held back until it is cut: were its answer whole, the connection would carry the next request by then.
      if (fault !== "socket stalls and is cut") client.write(chunk);
      if (!fault) return;
      server.pause();
      const then = fault === "socket stalls" ? () => server.resume() : cut;
      setTimeout(then, faults.random.between(10, 200));
    });
    server.on("end", () => client.end());
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const { port: own } = proxy.address() as { port: number };
  return {
    url: `http://127.0.0.1:${own}`,
    async close() {
      for (const socket of sockets) socket.destroy();
      proxy.close();
      await once(proxy, "close");
    },
  };
}
