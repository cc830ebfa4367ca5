import { connect, createServer, type AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** A proxy that hands each connection to the next port that accepts it, until the test is over. Resolves to its URL. */
export async function startProxy(ports: readonly number[]): Promise<string> {
  let turn = 0;
  const proxy = createServer((socket) => {
    const open = (tries: number): void => {
      const upstream = connect(ports[turn++ % ports.length]!, "127.0.0.1", () => socket.pipe(upstream).pipe(socket));
      socket.once("close", () => upstream.destroy());
      upstream.on("error", () => (upstream.bytesRead === 0 && tries > 1 ? open(tries - 1) : socket.destroy()));
      upstream.on("close", () => upstream.bytesRead > 0 && socket.destroy());
    };
    socket.on("error", () => {});
    open(ports.length);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void proxy.close());
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}
