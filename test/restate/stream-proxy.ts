import { connect, createServer, type ClientHttp2Session, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";

/**
 * A proxy in front of the replicas' Restate ports that sends each call to the next replica. Restate sends all its calls over
 * a few connections, so that a proxy of connections would let one replica do most of the work.
 */
export async function createStreamProxy(ports: readonly number[]): Promise<{ url: string; close(): void }> {
  const upstreams = new Map<number, ClientHttp2Session>();
  const sessions = new Set<ServerHttp2Session>();
  let turn = 0;

  const upstreamOf = (port: number): ClientHttp2Session => {
    const known = upstreams.get(port);
    if (known && !known.destroyed && !known.closed) return known;
    const session = connect(`http://127.0.0.1:${port}`);
    session.on("error", () => {}); // its streams end with it
    upstreams.set(port, session);
    return session;
  };

  const server = createServer({ settings: { maxConcurrentStreams: 10_000 } });
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => {});
    session.on("close", () => sessions.delete(session));
  });
  server.on("stream", (stream, headers) => {
    const outgoing = upstreamOf(ports[turn++ % ports.length]!).request(headers, { endStream: stream.endAfterHeaders });
    outgoing.on("response", (answer) => {
      if (stream.headersSent || stream.destroyed) return;
      stream.respond(answer);
      outgoing.pipe(stream);
    });
    if (!stream.endAfterHeaders) stream.pipe(outgoing);
    for (const [one, other] of [
      [stream, outgoing],
      [outgoing, stream],
    ] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroyed || (one.rstCode === 0 ? other.end() : other.close(one.rstCode)));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // it listens on a port
    close() {
      server.close();
      for (const session of [...sessions, ...upstreams.values()]) session.destroy();
    },
  };
}
