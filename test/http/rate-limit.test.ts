import { describe, expect, it } from "vitest";
import { createServer, defineWorkflow, type AuthProvider, type ServerOptions } from "agentserve";
import { createWindowCounter } from "../../src/http/rate-limit.ts";
import { describeServer, startServer, startTestServer, type TestServer } from "../harness/server.ts";

const workflows = [defineWorkflow({ id: "quick" }).andThen({ id: "one", execute: () => 1 })];
const keys: AuthProvider = {
  type: "key",
  extractToken: ({ headers }) => headers.get("x-api-key"),
  verifyToken(token) {
    if (!token.startsWith("ok-")) throw new Error("no such key");
    return { id: token.slice(3) };
  },
};
const server = (more: Partial<ServerOptions> = {}): ServerOptions => ({
  rateLimit: { limit: 3, window: "1h" },
  trustedProxies: ["loopback"],
  ...more,
});
/** Sends requests one after the other, and returns their statuses. */
async function statuses({ send }: TestServer, times: number, headers: Record<string, string>, path = "/workflows") {
  const all: number[] = [];
  for (let n = 0; n < times; n++) all.push((await send(path, { headers })).status);
  return all;
}
const from = (address: string) => ({ "x-forwarded-for": address });

describeServer("server.rateLimit", { config: { workflows, server: server() }, only: ["dev", "start"] }, (target) => {
  it("answers 429 with Retry-After over the limit, in the envelope and with the headers for a page", async () => {
    const headers = { ...from("203.0.113.1"), origin: "http://page.test" };
    expect(await statuses(target, 3, headers)).toEqual([200, 200, 200]);
    const refused = await target.get("/workflows", { headers });
    expect([refused.status, refused.body]).toEqual([429, { success: false, error: "Too many requests" }]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(3_500);
    expect(Number(refused.headers.get("retry-after"))).toBeLessThanOrEqual(3_600);
    expect(refused.headers.get("access-control-allow-origin")).toBe("*");
  });

  it("limits each address by itself, by the right-most one that is not a trusted proxy", async () => {
    expect(await statuses(target, 4, from("198.51.100.7, 203.0.113.2"))).toEqual([200, 200, 200, 429]);
    // The client chooses everything in front of that address.
    expect(await statuses(target, 1, from("198.51.100.8, 203.0.113.2"))).toEqual([429]);
    expect(await statuses(target, 1, from("203.0.113.2, 127.0.0.1, ::1"))).toEqual([429]);
    expect(await statuses(target, 1, from("203.0.113.2:8080"))).toEqual([429]);
    expect(await statuses(target, 1, from("::ffff:203.0.113.2"))).toEqual([429]);
    expect(await statuses(target, 1, from("203.0.113.3"))).toEqual([200]);
  });

  it("limits IPv6 addresses by their first 64 bits", async () => {
    expect(await statuses(target, 2, from("2001:db8:0:1::1"))).toEqual([200, 200]);
    expect(await statuses(target, 2, from("[2001:db8::1:ffff:0:0:2]:99"))).toEqual([200, 429]);
    expect(await statuses(target, 1, from("2001:0DB8:0000:0001::9"))).toEqual([429]);
    expect(await statuses(target, 1, from("2001:db8:0:2::1"))).toEqual([200]);
  });

  it("limits every route, unknown paths and WebSockets, but not health checks and preflights", async () => {
    const headers = from("203.0.113.4");
    expect(await statuses(target, 5, headers, "/health")).toEqual([200, 200, 200, 200, 200]);
    expect(await statuses(target, 5, headers, "/ready/")).not.toContain(429);
    const preflight = { ...headers, origin: "http://a.test", "access-control-request-method": "POST" };
    for (const _ of [1, 2, 3, 4])
      expect((await target.send("/workflows", { method: "OPTIONS", headers: preflight })).status).toBe(204);
    expect(await statuses(target, 1, headers, "/nothing")).toEqual([404]);
    const posted = await target.post("/workflows/quick/execute", { input: {} }, { headers });
    expect(posted.status).toBe(200);
    const socket = await target.socket("/ws", { headers });
    socket.close();
    await expect(target.socket("/ws", { headers })).rejects.toMatchObject({
      status: 429,
      body: '{"success":false,"error":"Too many requests"}',
    });
    const refused = await target.post("/workflows/quick/execute", { input: {} }, { headers });
    expect(refused.status).toBe(429);
  });
});

describe("server.rateLimit", () => {
  it("ignores X-Forwarded-For of a peer that is not a trusted proxy", async () => {
    const target = await startTestServer("start", { config: { server: server({ trustedProxies: ["10.0.0.0/8"] }) } });
    await statuses(target, 3, from("203.0.113.1"));
    expect(await statuses(target, 1, from("203.0.113.2"))).toEqual([429]);
  });

  it("limits requests by user after authentication, whatever the address", async () => {
    const target = await startTestServer("start", { config: { auth: keys, server: server() } });
    const ada = (address: string) => ({ ...from(address), "x-api-key": "ok-ada" });
    expect(await statuses(target, 2, ada("203.0.113.1"))).toEqual([200, 200]);
    expect(await statuses(target, 2, ada("203.0.113.2"))).toEqual([200, 429]);
    expect(await statuses(target, 1, { ...from("203.0.113.2"), "x-api-key": "ok-eve" })).toEqual([200]);
  });

  it("limits requests by address before authentication to ten times the limit, so that guesses end", async () => {
    const auth = { ...keys, defaultPrivate: true, publicRoutes: ["GET /doc"] };
    const target = await startTestServer("start", { config: { auth, server: server() } });
    const guess = { ...from("203.0.113.1"), "x-api-key": "guess" };
    expect(await statuses(target, 31, guess)).toEqual([...Array.from({ length: 30 }, () => 401), 429]);
    expect(await statuses(target, 1, { ...guess, "x-api-key": "ok-ada" })).toEqual([429]);
    expect(await statuses(target, 1, { ...from("203.0.113.2"), "x-api-key": "ok-ada" })).toEqual([200]);
  });

  it("limits requests by the key function of the config, which gets the request and the user", async () => {
    const key = ({ headers }: Request, user: Readonly<Record<string, unknown>> | undefined) =>
      headers.get("x-tenant") ?? (user?.["id"] as string | undefined);
    const rateLimit = { limit: 2, window: 3_600_000, key };
    const target = await startTestServer("in process", { config: { auth: keys, server: server({ rateLimit }) } });
    expect(await statuses(target, 3, { "x-tenant": "a" })).toEqual([200, 200, 429]);
    expect(await statuses(target, 1, { "x-tenant": "b".repeat(10_000) })).toEqual([200]);
    expect(await statuses(target, 3, { "x-api-key": "ok-ada" })).toEqual([200, 200, 429]);
  });

  it("does not limit a request of fetch without a user, a key and an address", async () => {
    const target = await startTestServer("in process", { config: { auth: keys, server: server() } });
    expect(await statuses(target, 5, from("203.0.113.1"))).toEqual([200, 200, 200, 200, 200]);
    expect(await statuses(target, 4, { "x-api-key": "ok-ada" })).toEqual([200, 200, 200, 429]);
  });

  it("limits requests inside the host's own middleware with cors: false", async () => {
    const target = await startTestServer("start", { config: { server: server({ cors: false }) } });
    expect(await statuses(target, 4, from("203.0.113.1"))).toEqual([200, 200, 200, 429]);
  });

  it("declares 429 in /doc only if server.rateLimit is set", async () => {
    const documented = async (options: ServerOptions) => {
      const target = await startServer("in process", { config: { workflows, server: options } });
      const { paths } = (await (await target.send("/doc", {})).json()) as { paths: Record<string, object> };
      await target.close();
      // The limits of models and of open streams are a 429 as well.
      const own = Object.entries(paths).filter(([path]) => !/^\/(agents|approvals)\/|\/stream$/.test(path));
      const operations = own.flatMap(([, methods]) => Object.values(methods));
      return operations.map(({ responses }: { responses: object }) => "429" in responses);
    };
    expect(new Set(await documented(server()))).toEqual(new Set([true]));
    expect(new Set(await documented({}))).toEqual(new Set([false]));
  });

  it.each<[object, string]>([
    [{ rateLimit: { limit: 0, window: "1m" } }, "server.rateLimit.limit: expected a whole number from 1, found 0"],
    [
      { rateLimit: { limit: 1, window: "soon" } },
      'server.rateLimit.window: expected a number of milliseconds or a duration such as "30s" or "1m", found "soon"',
    ],
    [
      { rateLimit: { limit: 1, window: 0 } },
      'server.rateLimit.window: expected a number of milliseconds or a duration such as "30s" or "1m", found 0',
    ],
    [{ rateLimit: { limit: 1, window: 1, key: "ip" } }, 'server.rateLimit.key: expected a function, found "ip"'],
    [{ rateLimit: { limit: 1, window: 1, max: 1 } }, "server.rateLimit.max: unknown key; expected limit, window, key"],
    [{ rateLimit: 100 }, 'server.rateLimit: expected an object such as { limit: 100, window: "1m" }, found 100'],
    [
      { trustedProxies: ["10.0.0.0/33"] },
      'server.trustedProxies.0: expected an address, a network such as "10.0.0.0/8", or "loopback", found "10.0.0.0/33"',
    ],
    [
      { trustedProxies: ["proxy"] },
      'server.trustedProxies.0: expected an address, a network such as "10.0.0.0/8", or "loopback", found "proxy"',
    ],
    [
      { trustedProxies: "loopback" },
      'server.trustedProxies: expected an array of addresses and networks, found "loopback"',
    ],
  ])("refuses the server options %j", (options, message) => {
    expect(() => createServer({ server: options as ServerOptions })).toThrow(message);
  });
});

describe("a window counter", () => {
  it("begins a new rate-limit window when the last one is over", () => {
    let time = 0;
    const counter = createWindowCounter({ limit: 2, windowMs: 1_000, now: () => time });
    expect([counter.count("a"), counter.count("a"), counter.count("a")]).toEqual([undefined, undefined, 1_000]);
    time = 400;
    expect(counter.count("a")).toBe(600);
    time = 1_000;
    expect([counter.count("a"), counter.count("a"), counter.count("a")]).toEqual([undefined, undefined, 1_000]);
  });

  it("stores a bounded number of rate-limit keys, and removes the oldest", () => {
    let time = 0;
    const counter = createWindowCounter({ limit: 1, windowMs: 1_000, max: 3, now: () => time });
    for (const key of ["a", "b", "c", "d"]) counter.count(key);
    expect(counter.size).toBe(3);
    expect([counter.count("d"), counter.count("b")]).toEqual([1_000, 1_000]);
    expect(counter.count("a")).toBeUndefined();
    time = 5_000;
    counter.count("e");
    expect(counter.size).toBe(1);
  });

  it("forgets rate-limit keys whose window is over, also behind a key with a new window", () => {
    let time = 0;
    const counter = createWindowCounter({ limit: 1, windowMs: 1_000, now: () => time });
    counter.count("a");
    time = 500;
    counter.count("b");
    time = 1_000;
    counter.count("a");
    time = 1_500;
    counter.count("c");
    expect(counter.size).toBe(2);
  });
});
