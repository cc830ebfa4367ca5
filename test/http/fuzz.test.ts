import fc from "fast-check";
import { expect, it } from "vitest";
import { testRows } from "../harness/rows.ts";
import { describeServer } from "../harness/server.ts";
import { bySize } from "../harness/size.ts";

const numRuns = bySize(300, 10_000);

const segment = fc.oneof(
  fc.constantFrom(
    "workflows",
    "test",
    "echo",
    "items",
    "events",
    "three",
    "boom",
    "doc",
    "ws",
    "hello",
    "..",
    ".",
    "",
    "%2e",
    "%2F",
    "%ff",
    "%",
  ),
  fc.string({ minLength: 1, maxLength: 8 }).map((text) => text.replace(/[\s\0]/g, "_")),
);
const known = fc.constantFrom(
  "/workflows",
  "/workflows/x",
  "/test/echo",
  "/test/items/a",
  "/test/events/three",
  "/test/boom",
  "/doc",
  "/ws",
);
const made = fc
  .tuple(
    fc.constantFrom("/", "//", "/\\", "", "http://h/", "*"),
    fc.array(segment, { maxLength: 4 }),
    fc.constantFrom("", "?", "?limit=1", "?limit=1&limit=2", "?%", "#x"),
  )
  .map(([start, segments, query]) => start + segments.join("/") + query);
const target = fc.oneof(known, made);
const header = fc.constantFrom(
  "Content-Type: application/json",
  "Content-Type: text/plain",
  "Content-Type: ;",
  "Origin: http://a.test",
  "Origin: null",
  "Access-Control-Request-Method: POST",
  "Upgrade: websocket",
  "Connection: Upgrade",
  "Connection: close",
  "Expect: 100-continue",
  "Expect: x",
  "Accept: text/html",
  "Prefer: respond-async",
  "X-HTTP-Method-Override: DELETE",
  "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
  "Sec-WebSocket-Version: 13",
  "Range: bytes=0-1",
  "If-None-Match: *",
  "Cookie: a=b",
  "Transfer-Encoding: chunked",
);
const request = fc.record({
  method: fc.constantFrom(
    "GET",
    "POST",
    "GET",
    "POST",
    "HEAD",
    "PUT",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "PROPFIND",
    "QUERY",
  ),
  target,
  host: fc.constantFrom("localhost", "localhost:1", "127.0.0.1", "[::1]:2", "evil.test", "x:99999", "", "[::1]", "a b"),
  headers: fc.uniqueArray(header, { maxLength: 4 }),
  body: fc.oneof(
    fc.constantFrom("", "{", "{}", "[]", "null", '{"n":1}', '{"n":"x"}', '{"__proto__":{"n":1}}'),
    fc.string({ maxLength: 20 }),
  ),
});

describeServer("whatever is asked", { rows: testRows, only: ["dev", "start"] }, (server) => {
  it(`is answered in the envelope (${numRuns} requests as raw bytes)`, async () => {
    const statuses = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(request, async ({ method, target: path, host, headers, body }) => {
        const chunked = headers.includes("Transfer-Encoding: chunked");
        const framed = chunked ? `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n${body && "0\r\n\r\n"}` : body;
        const length = chunked ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
        const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`, ...headers, ...length];
        const answer = await server.raw(`${lines.join("\r\n")}\r\n\r\n${framed}`);
        const [, status = "none", head = "", text = ""] =
          /^HTTP\/1\.1 (?:100 Continue\r\n\r\nHTTP\/1\.1 )?(\d+)[^\r]*\r\n(.*?)\r\n\r\n(.*)$/s.exec(answer) ?? [];
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (status === "101" || status === "204" || method === "HEAD") return;
        if (/^content-type: text\/(event-stream|html)/im.test(head)) return;
        expect(head, answer).toMatch(/^content-type: application\/json/im);
        const json = JSON.parse(text);
        if (json.openapi) return;
        expect(json).toEqual(
          Number(status) < 400
            ? { success: true, data: expect.anything() }
            : { success: false, error: expect.any(String) },
        );
      }),
      { numRuns },
    );
    console.log(server.target, Object.fromEntries(statuses));
    expect(
      server.logs.filter(({ level, data }) => level === "error" && !String(data?.["error"]).includes("a detail")),
    ).toEqual([]);
    expect((await server.get("/workflows")).status).toBe(200);
  });
});
