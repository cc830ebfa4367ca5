import { expect, it } from "vitest";
import type { Config } from "agentserve";
import { defineWebSocketHandler } from "h3";
import { describeServer, startTestServer } from "../harness/server.ts";

const configureApp: Config["configureApp"] = (app) => {
  app.get("/answers", () => new Response("no", { status: 403 }));
  app.get(
    "/accepts",
    defineWebSocketHandler({ upgrade: () => ({ headers: { "x-own": "1" } }), open: (peer) => peer.close() }),
  );
  app.get("/returns", defineWebSocketHandler({ upgrade: () => new Response("no", { status: 403 }) }));
};
const handshake =
  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
const host = "Host: localhost\r\n";

describeServer("x-request-id", { config: { configureApp }, only: ["dev", "start"] }, (server) => {
  const seen = new Set<string>();

  it.each([
    [
      "a preflight",
      204,
      `OPTIONS /doc HTTP/1.1\r\n${host}Origin: http://a.test\r\nAccess-Control-Request-Method: GET\r\n\r\n`,
    ],
    ["a request that cannot be parsed", 400, "GET / NOTHTTP\r\n\r\n"],
    ["a request without a Host", 400, "GET / HTTP/1.1\r\n\r\n"],
    ["headers that are too large", 431, `GET / HTTP/1.1\r\n${host}X: ${"x".repeat(20_000)}\r\n\r\n`],
    ["an unknown expectation", 417, `GET / HTTP/1.1\r\n${host}Expect: magic\r\n\r\n`],
    ["CONNECT", 405, `CONNECT a.test:80 HTTP/1.1\r\n${host}\r\n`],
    ["an upgrade without a socket route", 404, `GET /doc HTTP/1.1\r\n${host}${handshake}\r\n`],
    [
      "an upgrade that is not a handshake",
      400,
      `GET /ws HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    ],
    ["a WebSocket", 101, `GET /accepts HTTP/1.1\r\n${host}${handshake}\r\n`],
    ["an upgrade whose hook returns a refusal", 403, `GET /returns HTTP/1.1\r\n${host}${handshake}\r\n`],
    ["an upgrade that the host refuses", 403, `GET /answers HTTP/1.1\r\n${host}${handshake}\r\n`],
  ])("sends one new x-request-id with the response to %s (%i)", async (_, status, request) => {
    const answer = await server.raw(request);
    expect(answer.slice(9, 12)).toBe(String(status));
    const ids = [...answer.matchAll(/^x-request-id: (\S+)\r$/gim)].map(([, id]) => id!);
    expect(ids).toEqual([expect.stringMatching(/^[\da-f]{8}-[\da-z]+$/)]);
    expect(seen.has(ids[0]!)).toBe(false);
    seen.add(ids[0]!);
  });
});

it("sends the x-request-id that the route got with a refused upgrade", async () => {
  const ids: unknown[] = [];
  const config: Config = {
    configureApp: (app) =>
      void app.get("/refuses", ({ context }) => {
        ids.push(context["requestId"]);
        return new Response("no", { status: 403 });
      }),
  };
  const server = await startTestServer("start", { config });
  const answer = await server.raw(`GET /refuses HTTP/1.1\r\n${host}${handshake}\r\n`);
  expect(/^x-request-id: (\S+)\r$/im.exec(answer)?.[1]).toBe(ids[0]);
});
