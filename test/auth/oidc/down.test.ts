// Each of these changes makes tests of this file fail: no limit on the bytes or the time of a response; redirects that are
// followed; another issuer in the discovery document; keys over http; a 503 for a token that is malformed or has expired.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { oidcAuth } from "agentserve";
import { until } from "../../harness/waiting.ts";
import { startIssuer, troubles } from "./issuer.ts";
import { ask, createWorld, serve, type World } from "./world.ts";

const unavailable = { status: 503, error: "The token issuer is unavailable" };

/** The answers while the keys of an issuer are not known. */
async function expectDown({ issuer, ask: request }: World): Promise<void> {
  expect(await request(issuer.mint())).toMatchObject({ ...unavailable, retryAfter: expect.stringMatching(/^\d+$/) });
  expect(await request(undefined)).toMatchObject({ status: 401, error: "Authentication required" });
  for (const token of ["x", "a.b.c", `${issuer.mint()}.x`, issuer.mint().replace(/[^.]+$/, "")])
    expect(await request(token)).toMatchObject({ status: 401, error: "Invalid token: malformed" });
  expect(await request(issuer.mint({ exp: 1 }))).toMatchObject({ status: 401, error: "Token expired" });
  const none = issuer.mint({}, { alg: "none" });
  expect(await request(none)).toMatchObject({ status: 401, error: "Invalid token: algorithm not allowed" });
  for (const token of [issuer.mint(), issuer.mint({ exp: 1 }), "x", undefined])
    expect(await request(token, "/open")).toMatchObject({ status: 200, user: null });
}

describe("an issuer in trouble", () => {
  it.each(Object.entries(troubles))(
    "answers 503 on closed routes, and serves open ones, if the issuer %s",
    async (_, answer) => {
      const world = await createWorld();
      world.issuer.answer = answer;
      await expectDown(world);
      expect(world.issuer.count.discovery).toBe(1);
      expect(world.server.logs).toHaveLength(1);
      expect(JSON.stringify(world.server.logs)).not.toContain(world.issuer.mint().split(".")[1]);
    },
  );

  it.each(Object.entries(troubles))(
    "answers 503 on closed routes if the issuer %s instead of its keys",
    async (_, answer) => {
      const world = await createWorld();
      const { issuer } = world;
      issuer.answer = (request, response) =>
        request.url === "/keys"
          ? answer(request, response)
          : void response.end(JSON.stringify({ issuer: issuer.url, jwks_uri: `${issuer.url}/keys` }));
      await expectDown(world);
      expect(issuer.count).toEqual({ discovery: 1, keys: 1 });
    },
  );

  it.each<[string, (world: World) => Record<string, unknown>]>([
    ["names another issuer", () => ({ issuer: "https://another.example" })],
    ["names itself with a slash at the end", ({ issuer }) => ({ issuer: `${issuer.url}/` })],
    ["names no issuer", () => ({ issuer: undefined })],
    ["names an object", () => ({ issuer: {} })],
    ["has no keys", () => ({ jwks_uri: undefined })],
    ["has its keys at no address", () => ({ jwks_uri: "keys" })],
    ["has its keys over http", () => ({ jwks_uri: "http://keys.example/keys" })],
    ["has its keys in a file", () => ({ jwks_uri: "file:///etc/keys" })],
    ["has its keys in the address", () => ({ jwks_uri: 'data:application/json,{"keys":[]}' })],
  ])("does not trust an issuer that %s", async (_, toDiscovery) => {
    const world = await createWorld();
    world.issuer.discovery = toDiscovery(world);
    await expectDown(world);
    expect(world.issuer.count.keys).toBe(0);
  });

  it.each<[string, unknown]>([
    ["no list", {}],
    ["something else than keys", { keys: [1] }],
    ["more than 100 keys", { keys: Array.from({ length: 101 }, () => ({ kty: "EC" })) }],
  ])("answers 503 if the issuer publishes %s for its keys", async (_, keys) => {
    const world = await createWorld();
    const { issuer } = world;
    issuer.answer = (request, response) =>
      void response.end(
        JSON.stringify(request.url === "/keys" ? keys : { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` }),
      );
    await expectDown(world);
  });

  it("answers 503 after 4 seconds without an answer of the issuer, before the time limit of a provider", async () => {
    const world = await createWorld();
    const { issuer, clock } = world;
    issuer.answer = () => {};
    const waiting = [world.ask(issuer.mint()), world.ask(issuer.mint())];
    await until(() => issuer.count.discovery === 1, "the request to the issuer");
    clock.advance(3_999);
    expect(await world.ask(undefined)).toMatchObject({ status: 401 });
    clock.advance(1);
    for (const answer of await Promise.all(waiting)) expect(answer).toMatchObject(unavailable);
    expect(world.server.logs[0]!.data!["error"]).toContain("has not answered within 4000 ms");
  });

  it("answers 503 after 4 seconds of an issuer that sends one byte after another", async () => {
    const world = await createWorld();
    const { issuer, clock } = world;
    let cut = false;
    issuer.answer = (_, response) => {
      response.write("{");
      const drip = setInterval(() => response.write(" "), 10);
      response.on("close", () => (clearInterval(drip), (cut = true)));
    };
    const waiting = world.ask(issuer.mint());
    await until(() => issuer.count.discovery === 1, "the request to the issuer");
    clock.advance(4_000);
    expect(await waiting).toMatchObject(unavailable);
    await until(() => cut, "the end of the request to the issuer");
  });

  it("stops reading an endless response of the issuer", async () => {
    const world = await createWorld();
    let cut = false;
    world.issuer.answer = (request, response) => {
      response.on("close", () => (cut = true));
      troubles["sends an endless response"](request, response);
    };
    expect(await world.ask(world.issuer.mint())).toMatchObject(unavailable);
    expect(world.server.logs[0]!.data!["error"]).toContain("the response is longer than 262144 bytes");
    await until(() => cut, "the end of the response");
  });

  it("follows no redirect of the issuer, not even to itself", async () => {
    const world = await createWorld();
    const { issuer } = world;
    const paths: unknown[] = [];
    issuer.answer = ({ url }, response) => (paths.push(url), void response.writeHead(307, { location: "/keys" }).end());
    expect(await world.ask(issuer.mint())).toMatchObject(unavailable);
    expect(paths).toEqual(["/.well-known/openid-configuration"]);
    expect(world.server.logs[0]!.data!["error"]).toContain("expected status 200, found 307");
  });
});

describe("oidcAuth()", () => {
  it("reads nothing from the issuer before the first token, and logs why it cannot be reached", async () => {
    // A port where nothing listens.
    const placeholder = createServer();
    await new Promise<void>((resolve) => placeholder.listen(0, "127.0.0.1", resolve));
    const { port } = placeholder.address() as AddressInfo;
    await new Promise((resolve) => placeholder.close(resolve));
    const server = await serve(
      oidcAuth({ issuer: `http://127.0.0.1:${port}`, audience: "my-api", protect: ["GET /me"] }),
    );
    onTestFinished(() => server.close());
    expect(server.logs).toEqual([]);
    const issuer = await startIssuer();
    onTestFinished(() => issuer.close());
    const token = issuer.mint({ iss: `http://127.0.0.1:${port}` });
    expect(await ask(server, token)).toMatchObject(unavailable);
    expect(server.logs[0]!.data!["error"]).toContain("ECONNREFUSED");
  });

  it("accepts a token of an issuer whose URL has a path", async () => {
    for (const path of ["/realms/main", "/tenant/"]) {
      const { issuer, ask: request } = await createWorld({ target: "start", issuerOptions: { path } });
      expect(await request(issuer.mint())).toMatchObject({ status: 200, user: "ada" });
      expect(issuer.count).toEqual({ discovery: 1, keys: 1 });
    }
  });
});
