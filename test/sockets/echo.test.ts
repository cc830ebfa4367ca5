import { once } from "node:events";
import { connect } from "node:net";
import { defineWebSocketHandler, HTTPError } from "h3";
import { expect, it, vi } from "vitest";
import type { Config } from "../../src/config/define.ts";
import { withBounds } from "../harness/bounds.ts";
import { testRows } from "../harness/rows.ts";
import { describeServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

const bounds = { sockets: 3, socketMessageBytes: 1_000, socketBufferBytes: 100_000 };
const config: Config = withBounds(bounds, {
  server: { cors: { origin: ["http://friend.test"] } },
  configureApp(app) {
    app.use((event) => void event.res.headers.set("x-mine", "1"));
    app.get("/own", defineWebSocketHandler({ open: (peer) => void peer.send('"own"') }));
    app.get(
      "/throws",
      defineWebSocketHandler({
        message() {
          throw new Error("from a hook");
        },
      }),
    );
    const rejects = () => Promise.reject(new Error("from a hook"));
    app.get("/rejects", defineWebSocketHandler({ message: rejects }));
    app.get("/plain", () => "plain");
  },
});

describeServer("/ws", { config, only: ["dev", "start"] }, (server) => {
  it("sends every message to /ws back, JSON parsed and other text as a string", async () => {
    const socket = await server.socket("/ws");
    expect(await socket.next()).toEqual({
      type: "CONNECTION_TEST",
      success: true,
      data: { message: expect.any(String), timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) },
    });
    const deep = "[".repeat(400);
    for (const [sent, data] of [
      [deep + "]".repeat(400), JSON.parse(deep + "]".repeat(400))],
      [deep, deep],
      ['{"a":[1]}', { a: [1] }],
      ["hello", "hello"],
      ["", ""],
      ["null", null],
    ] as const) {
      socket.send(sent);
      expect(await socket.next()).toEqual({ type: "ECHO", success: true, data });
    }
    socket.close();
    await socket.closed;
  });

  it("closes a WebSocket with 1009 on a message over the limit", async () => {
    const socket = await server.socket("/ws");
    socket.send("x".repeat(1_001));
    expect(await socket.closed).toBe(1009);
  });

  it("cuts a WebSocket client that sends without reading", async () => {
    const socket = await server.socket("/ws");
    socket.ws.pause();
    const text = "x".repeat(900);
    const timer = setInterval(() => {
      for (let i = 0; i < 1_000 && socket.ws.readyState === 1 && socket.ws.bufferedAmount < 1e6; i++) socket.send(text);
    }, 1);
    const [raw] = [(socket.ws as unknown as { _socket: import("node:net").Socket })._socket];
    await new Promise<void>((resolve) => raw.once("error", () => resolve()).once("close", () => resolve()));
    clearInterval(timer);
  });

  it.each([
    ["an unknown path", "/nope", {}, 404, "Not found"],
    ["a route that is no socket", "/workflows", {}, 404, "Not found"],
    ["a custom route that is no socket", "/plain", {}, 400, "Not a WebSocket route"],
    ["an origin that cors does not allow", "/ws", { origin: "http://foe.test" }, 403, "Origin not allowed"],
  ])("refuses an upgrade in the envelope for %s", async (_, path, headers, status, error) => {
    const refused = server.socket(path, { headers });
    await expect(refused).rejects.toMatchObject({ status, body: JSON.stringify({ success: false, error }) });
  });

  it("opens a WebSocket for its own origin, those of cors, and clients without one", async () => {
    const { origin } = new URL((await server.send("/workflows", {})).url);
    for (const headers of [{ origin }, { origin: "http://friend.test" }, {} as Record<string, string>]) {
      const socket = await server.socket("/ws", { headers });
      socket.close();
      await socket.closed;
    }
  });

  it("serves the host's own sockets", async () => {
    const own = await server.socket("/own");
    expect(await own.next()).toBe("own");
    own.close();
    await own.closed;
  });

  it.each(["throws", "rejects"])(
    "closes a host's socket with 1011 if its hook %s, and logs the error",
    async (path) => {
      server.logs.length = 0;
      const failing = await server.socket(`/${path}`);
      failing.send("x");
      expect(await failing.closed).toBe(1011);
      expect(server.logs).toMatchObject([{ level: "error", data: { error: new Error("from a hook") } }]);
    },
  );

  it("refuses more WebSockets than limits.sockets, and accepts new ones once others have closed", async () => {
    const open = await Promise.all([1, 2, 3].map(() => server.socket("/ws")));
    await expect(server.socket("/ws")).rejects.toMatchObject({ status: 503 });
    for (const socket of open) socket.ws.terminate();
    await Promise.all(open.map((socket) => socket.closed));
    await expect
      .poll(() =>
        server.socket("/ws").then(
          (socket) => socket.ws.terminate(),
          () => "refused",
        ),
      )
      .toBeUndefined();
  });
});

describeServer("a socket row", { rows: testRows, only: ["start"] }, (server) => {
  it("sends the error of an invalid query before it closes the WebSocket", async () => {
    const socket = await server.socket("/test/socket?level=warn");
    expect(await socket.next()).toEqual({ level: "warn" });
    const refused = await server.socket("/test/socket?level=loud");
    const error = expect.stringContaining("Invalid query: level");
    expect(await refused.next()).toEqual({ type: "ERROR", success: false, error });
    expect(await refused.closed).toBe(1008);
    socket.close();
  });
});

describeServer(
  "a refused upgrade",
  { only: ["dev", "start"], config: { server: { limits: { sockets: 1, drainMs: 500 } } } },
  (server) => {
    const bad = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    const open = async (bytes: string) => {
      const { port } = new URL((await server.send("/workflows", {})).url);
      const socket = connect({ port: Number(port), host: "127.0.0.1", allowHalfOpen: true });
      socket.on("error", () => {}).write(bytes);
      return socket;
    };
    it("closes the connection of a refused upgrade, although the client keeps its side open", async () => {
      const sockets = await Promise.all(Array.from({ length: 20 }, () => open(bad)));
      await Promise.all(sockets.map((socket) => once(socket.resume(), "end")));
      const lost = sockets.map((socket) => new Promise((resolve) => socket.on("close", resolve)));
      // A server that has no such connection any more resets it.
      const timer = setInterval(() => sockets.forEach((socket) => socket.destroyed || socket.write("still here")), 10);
      await Promise.all(lost);
      clearInterval(timer);
    });
    it("survives a client that resets during the handshake", async () => {
      for (let i = 0; i < 20; i++) {
        const socket = await open(
          bad.replace(
            "\r\n\r\n",
            "\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
          ),
        );
        await new Promise((resolve) => setImmediate(resolve));
        socket.resetAndDestroy();
      }
      expect((await server.get("/workflows")).status).toBe(200);
    });
  },
);

const pushed = { cut: 0 };
const pushing: Config = withBounds(
  { socketBufferBytes: 100_000 },
  {
    server: {
      cors: { origin: (origin) => (origin.endsWith(".good.test") ? origin : "http://good.test") },
    },
    configureApp(app) {
      app.get(
        "/push",
        defineWebSocketHandler({
          open(peer) {
            const timer = setInterval(() => void peer.send("x".repeat(100_000)), 1);
            peer.context["timer"] = timer;
          },
          close(peer) {
            pushed.cut++;
            clearInterval(peer.context["timer"] as NodeJS.Timeout);
          },
        }),
      );
      app.get("/locked", () => {
        throw new HTTPError({ status: 401, message: "who are you?", headers: { "www-authenticate": "Basic" } });
      });
      app.get(
        "/broken",
        defineWebSocketHandler({
          upgrade() {
            throw new Error("a detail that nobody may see");
          },
        }),
      );
    },
  },
);
describeServer("a host's sockets", { config: pushing, only: ["dev", "start"] }, (server) => {
  it("cuts the host's WebSocket whose client does not read what is pushed", async () => {
    const socket = await server.socket("/push");
    const raw = (socket.ws as unknown as { _socket: import("node:net").Socket })._socket;
    raw.pause();
    const { cut } = pushed;
    await eventually(() => expect(pushed.cut).toBe(cut + 1));
    raw.destroy();
  });
  it("refuses an upgrade with the response of the host's hook", async () => {
    await expect(server.socket("/locked")).rejects.toMatchObject({
      status: 401,
      body: '{"success":false,"error":"who are you?"}',
    });
    await expect(server.socket("/broken")).rejects.toMatchObject({
      status: 500,
      body: '{"success":false,"error":"Internal server error"}',
    });
    expect(server.logs.at(-1)).toMatchObject({
      level: "error",
      data: { error: new Error("a detail that nobody may see") },
    });
  });
  it("refuses a WebSocket of an origin for which the cors function returns another one", async () => {
    await expect(server.socket("/ws", { headers: { origin: "http://evil.test" } })).rejects.toMatchObject({
      status: 403,
    });
    const allowed = await server.socket("/ws", { headers: { origin: "http://a.good.test" } });
    allowed.close();
  });
  it("opens a WebSocket of its own origin behind a proxy that terminates TLS", async () => {
    const { host } = new URL((await server.send("/workflows", {})).url);
    const socket = await server.socket("/ws", { headers: { origin: `https://${host}` } });
    socket.close();
    await expect(server.socket("/ws", { headers: { origin: "null" } })).rejects.toMatchObject({ status: 403 });
  });
});

const asked = { slow: Promise.withResolvers<void>(), go: Promise.withResolvers<void>() };
const slow: Config = {
  configureApp(app) {
    app.get("/slow", async () => {
      asked.slow.resolve();
      await asked.go.promise;
      return "no socket";
    });
  },
};
describeServer(
  "a client that resets while its upgrade is being decided",
  { config: slow, only: ["start"] },
  (server) => {
    it("survives a client that resets while its upgrade is decided", async () => {
      const uncaught = vi.fn();
      process.on("uncaughtException", uncaught);
      const { port } = new URL((await server.send("/workflows", {})).url);
      const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
      socket.write(
        "GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
      );
      await asked.slow.promise;
      socket.resetAndDestroy();
      for (let i = 0; i < 5; i++) expect((await server.get("/workflows")).status).toBe(200); // time for the reset to arrive
      asked.go.resolve();
      expect((await server.get("/workflows")).status).toBe(200);
      process.off("uncaughtException", uncaught);
      expect(uncaught).not.toHaveBeenCalled();
    });
  },
);

describeServer("dev", { only: ["dev"], config: { server: { allowedHosts: ["my.test"] } } }, (server) => {
  it.each([
    ["localhost", 200],
    ["x.localhost:1", 200],
    ["127.0.0.1", 200],
    ["[::1]:3141", 200],
    ["MY.test:80", 200],
    ["evil.test", 403],
    ["localhost.evil.test", 403],
    ["evillocalhost", 403],
    ["127.0.0.1.evil", 403],
    ["127.0.0.1:3141", 200],
    ["[::ffff:127.0.0.1]", 200],
    ["::1", 400],
    ["[127.0.0.1]", 400],
    ["127.0.0.1]", 400],
    ["localhost@evil.test", 403],
    ["evil.test@x.localhost", 403],
    ["evil.test/.localhost", 403],
    ["evil.test?.localhost", 403],
    ["evil.test#.localhost", 403],
    [".localhost", 403],
    ["a..localhost", 403],
    ["localhost.", 403],
    ["localhost:", 403],
    ["localhost:65536", 400],
    ["localhost:1x", 400],
    ["[fe80::1%eth0]", 400],
    ["", 400],
    ["localhost\r\nHost: evil.test", 400],
    ["evil.test\r\nHost: localhost", 400],
  ])("answers a request to dev for the host name %s with %i", async (host, status) => {
    expect(await server.raw(`GET /workflows HTTP/1.1\r\nHost: ${host}\r\n\r\n`)).toMatch(
      new RegExp(`^HTTP/1.1 ${status} `),
    );
  });
  it("opens no WebSocket of dev for another host name", async () => {
    await expect(server.socket("/ws", { headers: { host: "evil.test" } })).rejects.toMatchObject({ status: 403 });
  });
});
