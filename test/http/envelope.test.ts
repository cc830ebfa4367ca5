import { once } from "node:events";
import { connect } from "node:net";
import { expect, it } from "vitest";
import { withBounds } from "../harness/bounds.ts";
import type { Init } from "../harness/client.ts";
import { seen, testRows } from "../harness/rows.ts";
import { describeServer } from "../harness/server.ts";

const config = withBounds({ bodyBytes: 1_000, jsonDepth: 5 }, {});
const deep = (levels: number): string =>
  `{"options":{"context":${'{"a":'.repeat(levels - 2)}1${"}".repeat(levels - 2)}}}`;
const json = { "content-type": "application/json" };

describeServer("the envelope", { config, rows: testRows }, (server) => {
  const cases: [title: string, path: string, init: Init, status: number, error: string][] = [
    ["an unknown path", "/nope", {}, 404, "Not found"],
    ["an unknown path with a body", "/nope", { method: "POST", json: {} }, 404, "Not found"],
    ["an unknown workflow", "/workflows/nope", {}, 404, "Workflow nope not found"],
    ["a wrong method", "/workflows", { method: "POST", json: {} }, 405, "Method not allowed"],
    ["OPTIONS that is no preflight", "/test/echo", { method: "OPTIONS" }, 405, "Method not allowed"],
    ["malformed JSON", "/test/echo", { method: "POST", body: "{", headers: json }, 400, "Invalid JSON body"],
    [
      "a body of another type",
      "/test/echo",
      { method: "POST", body: "n=1", headers: { "content-type": "text/plain" } },
      415,
      "Content-Type must be application/json",
    ],
    [
      "a body without a type",
      "/test/echo",
      { method: "POST", body: new Response('{"n":1}').body! },
      415,
      "Content-Type must be application/json",
    ],
    [
      "a body over the limit",
      "/test/echo",
      { method: "POST", json: { n: 1, x: "y".repeat(1_000) } },
      413,
      "Request body too large",
    ],
    [
      "a body over jsonDepth",
      "/test/echo",
      { method: "POST", body: deep(6), headers: json },
      400,
      "Invalid JSON body: nested deeper than 5 levels",
    ],
    [
      "a known key of the wrong type",
      "/test/echo",
      { method: "POST", json: { options: { label: 1 } } },
      400,
      "Invalid request body: options.label: Invalid type: Expected string but received 1",
    ],
    [
      "a body that is no object",
      "/test/echo",
      { method: "POST", json: [1] },
      400,
      "Invalid request body: Invalid type: Expected Object but received Array",
    ],
    [
      "an array for an object",
      "/test/echo",
      { method: "POST", json: { options: { context: [] } } },
      400,
      "Invalid request body: options.context: Invalid type: Expected Object but received Array",
    ],
    [
      "nested arrays over jsonDepth",
      "/test/echo",
      { method: "POST", body: `{"n":${"[".repeat(6)}${"]".repeat(6)}}`, headers: json },
      400,
      "Invalid JSON body: nested deeper than 5 levels",
    ],
    ["a bad query", "/test/items/a?limit=x", {}, 400, "Invalid query: limit: expected a whole number"],
    ["a query given twice", "/test/items/a?limit=1&limit=2", {}, 400, "Invalid query: limit is given twice"],
    ["a path that is not UTF-8", "/test/items/%ff", {}, 400, "Invalid path: id is not percent-encoded UTF-8"],
    ["a handler that throws", "/test/boom", {}, 500, "Internal server error"],
    ["a stream that fails before its first event", "/test/events/failing", {}, 500, "Internal server error"],
    ["a socket asked without an upgrade", "/ws", {}, 426, "Upgrade required"],
  ];
  it.each(cases)("answers %s in the envelope", async (_, path, init, status, error) => {
    const answer = await server.request(path, init);
    expect([answer.status, answer.body]).toEqual([status, { success: false, error }]);
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.get("x-request-id")).toMatch(/./);
  });

  it("reads an empty body of any type as {}", async () => {
    for (const init of [{}, { body: "" }, { body: "", headers: { "content-type": "text/plain" } }]) {
      expect((await server.request("/test/echo", { method: "POST", ...init })).body.data).toEqual({ n: null });
    }
  });

  it("accepts a body exactly at its limits of bytes and depth", async () => {
    const body = JSON.stringify({ n: 1 }).padEnd(1_000);
    expect((await server.request("/test/echo", { method: "POST", body, headers: json })).status).toBe(200);
    expect((await server.request("/test/echo", { method: "POST", body: `${body} `, headers: json })).status).toBe(413);
    expect((await server.request("/test/echo", { method: "POST", body: deep(5), headers: json })).status).toBe(200);
  });

  it("refuses a large body of undeclared length with 413", async () => {
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(new Uint8Array(500).fill(32));
        if (++sent === 100) controller.close();
      },
    });
    expect((await server.request("/test/echo", { method: "POST", body, headers: json })).status).toBe(413);
  });

  it.each(["application/json; charset=utf-8", "application/merge-patch+json", "APPLICATION/JSON"])(
    "reads %s",
    async (type) => {
      const answer = await server.request("/test/echo", {
        method: "POST",
        body: '{"n":1}',
        headers: { "content-type": type },
      });
      expect(answer.body.data).toEqual({ n: 1 });
    },
  );

  it("names the methods of a path in a 405", async () => {
    expect((await server.request("/workflows", { method: "DELETE" })).headers.get("allow")).toBe("GET, HEAD");
    expect((await server.request("/test/echo", { method: "HEAD" })).headers.get("allow")).toBe("POST");
  });

  it("logs a thrown error once, with the request id, and hides it from the caller", async () => {
    server.logs.length = 0;
    const { headers, text } = await server.get("/test/boom");
    expect(text).not.toContain("detail");
    expect(server.logs).toEqual([
      {
        level: "error",
        message: "Request failed",
        data: { error: expect.any(Error), requestId: headers.get("x-request-id") },
      },
    ]);
  });

  it("ignores unknown keys of a body, and logs each of them once", async () => {
    server.logs.length = 0;
    for (let i = 0; i < 3; i++)
      await server.post("/test/echo", { n: 1, colour: 2, options: { shape: 1, context: { any: 1 } } });
    expect(server.logs.map(({ level, data }) => [level, data])).toEqual([
      ["warn", { route: "POST /test/echo", key: "colour", requestId: expect.any(String) }],
      ["warn", { route: "POST /test/echo", key: "options.shape", requestId: expect.any(String) }],
    ]);
    for (let i = 0; i < 200; i++) await server.post("/test/echo", { [`key${i}`]: 1 });
    expect(server.logs).toHaveLength(100);
  });

  it("sends the status and the headers of a Reply", async () => {
    const { status, headers, body } = await server.post("/test/echo", {}, { headers: { prefer: "respond-async" } });
    expect([status, headers.get("x-execution-id"), body.data]).toEqual([202, "e1", { later: true }]);
  });

  it("accepts names of built-in properties as parameters and keys", async () => {
    expect((await server.get("/test/items/a?constructor=1&__proto__=2&toString=3")).status).toBe(200);
    server.logs.length = 0;
    expect(
      (
        await server.request("/test/echo", {
          method: "POST",
          body: '{"toString":1,"__proto__":{"n":1}}',
          headers: json,
        })
      ).body.data,
    ).toEqual({ n: null });
  });

  it("decodes path parameters and validates queries", async () => {
    expect((await server.get("/test/items/a%20b%2Fc?limit=3")).body.data).toEqual({ id: "a b/c", limit: 3 });
  });

  it("answers HEAD as GET without a body, and begins no stream for it", async () => {
    const head = await server.request("/workflows", { method: "HEAD" });
    expect([head.status, head.text, head.headers.get("content-type")]).toEqual([200, "", "application/json"]);
    const { made } = seen;
    expect((await server.request("/test/events/three", { method: "HEAD" })).status).toBe(200);
    expect(seen.made).toBe(made);
  });
});

describeServer("the connection", { config, rows: testRows, only: ["dev", "start"] }, (server) => {
  const large = "x".repeat(200_000);
  it.each([
    ["declared", `Content-Length: ${large.length}\r\n\r\n${large}`],
    ["not declared", `Transfer-Encoding: chunked\r\n\r\n30d40\r\n${large}\r\n0\r\n\r\n`],
  ])("answers the next request of a connection after a 413 for a body whose length is %s", async (_, rest) => {
    const first = `POST /test/echo HTTP/1.1\r\nHost: localhost\r\n${rest}`;
    const requests = `${first}GET /workflows HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;
    const { port } = new URL((await server.send("/workflows", {})).url);
    const answer = await new Promise<string>((resolve) => {
      let got = "";
      const socket = connect(Number(port), "127.0.0.1", () => socket.write(requests));
      socket.on("data", (chunk) => (got += chunk)).on("close", () => resolve(got));
    });
    expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(["HTTP/1.1 413", "HTTP/1.1 200"]);
  });

  it("answers in the envelope to requests that Node cannot parse", async () => {
    const envelope = /\r\n\r\n\{"success":false,"error":"[^"]+"\}$/;
    for (const path of ["/./x", "/%2e/x", "/\\x", "//x", "/workflows/./x", "*", "http://x/nope"]) {
      for (const host of ["x:99999", "256.1.1.1", "a b", "", "[::g]", "evil.test"]) {
        const answer = await server.raw(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
        expect(answer, `${path} ${host}`).toMatch(/^HTTP\/1.1 (400|403|404) /);
        expect(answer, `${path} ${host}`).toMatch(envelope);
        const upgrade = await server.raw(
          `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
        );
        expect(upgrade, `upgrade ${path} ${host}`).toMatch(/^HTTP\/1.1 (400|403|404) /);
        expect(upgrade, `upgrade ${path} ${host}`).toMatch(envelope);
      }
    }
    for (const [bytes, status] of [
      ["GARBAGE\r\n\r\n", 400],
      ["GET / HTTP/1.1\r\n\r\n", 400],
      ["GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400],
      [`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${"y".repeat(20_000)}\r\n\r\n`, 431],
      ["GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400],
      ["POST /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400],
      ["CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405],
      ["GET / HTTP/1.1\r\nHost: localhost\r\nExpect: the moon\r\n\r\n", 417],
    ] as const) {
      const answer = await server.raw(bytes);
      expect(answer, bytes.slice(0, 200)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(answer, bytes.slice(0, 200)).toMatch(envelope);
    }
  });
});

const slow = {
  // More for the headers than for the whole request: Node itself would refuse to start.
  config: withBounds({ headersMs: 9_000, requestMs: 400 }, {}),
  rows: testRows,
  only: ["start" as const],
};
describeServer("bytes that are no request", { rows: testRows, only: ["dev", "start"] }, (server) => {
  it("cuts a connection with bytes that are not a request while a response is being sent", async () => {
    const { port } = new URL((await server.send("/workflows", {})).url);
    const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
    let got = "";
    socket.setEncoding("latin1").on("data", (chunk) => (got += chunk));
    socket.write("GET /test/events/silent HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while (!got.includes("data: ")) await once(socket, "data");
    socket.write("GARBAGE\r\n\r\n");
    await new Promise((resolve) => socket.on("close", resolve));
    expect(got.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });
});

describeServer("a body's unknown keys", { rows: testRows, only: ["in process"] }, (server) => {
  it("reports unknown keys with the names of built-in properties", async () => {
    await server.request("/test/echo", { method: "POST", body: '{"toString":1,"__proto__":{"n":1}}', headers: json });
    expect(server.logs.map(({ data }) => data?.["key"])).toEqual(["toString", "__proto__"]);
  });
});

describeServer("a client that would rather speak HTTP/2", { only: ["dev", "start"] }, (server) => {
  it("answers a client that asks for HTTP/2 as usual", async () => {
    const answer = await server.raw(
      "GET /workflows HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    );
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
  });
});

describeServer("slow senders", slow, (server) => {
  it.each([
    ["headers", "GET /workflows HTTP/1.1\r\nHost: local"],
    ["body", "POST /test/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc"],
  ])("answers a slow sender with 408 in the envelope: %s", async (_, bytes) => {
    const answer = await server.raw(bytes);
    expect(answer).toContain('{"success":false,"error":"Request timeout"}');
  });
});

describeServer("the test client", { rows: testRows, only: ["in process"] }, (server) => {
  it.each([
    ["status", /answered 201, which \/doc does not list/],
    ["media", /as text\/plain, which \/doc does not list/],
    ["field", /not what \/doc says:\n.*b/s],
    ["type", /not what \/doc says:\n.*a/s],
  ])("fails in the test client for an undocumented %s", async (what, message) => {
    await expect(server.get(`/test/undocumented/${what}`)).rejects.toThrow(message);
    await server.get("/test/undocumented/nothing");
  });
});
