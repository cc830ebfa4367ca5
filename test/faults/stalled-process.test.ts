import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { RestateClient } from "../../src/backends/restate/client/client.ts";

const readMs = 600;

/** A client of an ingress that answers at once, or never. */
async function startClient({ hangs = false } = {}): Promise<RestateClient> {
  const server = createServer((_, response) => void (hangs || response.end('{"state":1}')));
  server.listen(0, "127.0.0.1");
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return new RestateClient({ ingress: [url], admin: url, name: "x", timeouts: { readMs, writeMs: readMs } });
}

it("a replica that stalls reads the answer of a new connection before it says that Restate cannot be reached", async () => {
  const client = await startClient();
  const reading = client.read("register/state", "a");
  // The request is on its way. Then nothing of this process runs for longer than the time limit.
  await new Promise((resolve) => setImmediate(resolve));
  for (const until = performance.now() + 2 * readMs; performance.now() < until;);
  expect(await reading).toEqual({ state: 1 });
  expect(client.isReachable).toBe(true);
});

it("a call that Restate does not answer ends at its time limit", async () => {
  const client = await startClient({ hangs: true });
  const begun = performance.now();
  await expect(client.read("register/state", "a")).rejects.toMatchObject({
    status: 503,
    message: "Restate cannot be reached",
  });
  expect(performance.now() - begun).toBeGreaterThanOrEqual(readMs - 5);
});
