import { expect, it } from "vitest";
import { exchange } from "./fuzz/wire.ts";
import { serve } from "./serve.ts";

const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
const key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
const preflight = "Origin: http://a.test\r\nAccess-Control-Request-Method: POST\r\n";

it("gives an x-request-id to every response, of requests that are not valid HTTP as well", async () => {
  const server = await serve();
  const sent: Record<string, string> = {
    "a request": "GET /agents HTTP/1.1\r\nHost: a\r\n\r\n",
    "a route that does not exist": "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
    "an invalid Host": "GET /agents HTTP/1.1\r\nHost: x:99999\r\n\r\n",
    "a preflight": `OPTIONS /agents HTTP/1.1\r\nHost: a\r\n${preflight}\r\n`,
    "a malformed header": "GET /agents HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
    "a header of 20 KB": `GET /agents HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(20_000)}\r\n\r\n`,
    "an expectation": "GET /agents HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n",
    CONNECT: "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a refused upgrade": `GET /none HTTP/1.1\r\nHost: a\r\n${upgrade}${key}\r\n`,
  };
  const missing: string[] = [];
  for (const [name, text] of Object.entries(sent)) {
    const answer = await exchange(server.port, Buffer.from(text), false);
    if (!answer?.headers.get("x-request-id")) missing.push(`${name}: ${answer?.status}`);
  }
  expect(missing).toEqual([]);
});
