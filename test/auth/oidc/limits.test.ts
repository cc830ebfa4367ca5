// Each of these changes makes tests of this file fail: no pause between two reads for unknown keys; no pause after a failed
// read; keys that are used for longer than an hour; a request that waits for an issuer that is known to be down.
import { describe, expect, it } from "vitest";
import { until } from "../../harness/waiting.ts";
import { troubles } from "./issuer.ts";
import { createKeyPair } from "./sign.ts";
import { createWorld, type World } from "./world.ts";

const minute = 60_000;
const down = troubles["closes the connection"];
const stranger = createKeyPair("stranger");

describe("unknown keys", () => {
  it("reads the keys once a minute in a flood of tokens with unknown keys", async () => {
    const { issuer, clock, ask, server } = await createWorld();
    await ask(issuer.mint());
    let sent = 0;
    const flood = () =>
      Promise.all(Array.from({ length: 20 }, () => ask(issuer.mint({}, { kid: `unknown-${sent++}` }, stranger))));
    for (let n = 1; n <= 10; n++) {
      for (const half of [0, 1]) {
        for (const answer of await flood())
          expect(answer).toMatchObject({ status: 401, error: "Invalid token: unknown key" });
        expect(issuer.count).toEqual({ discovery: 1, keys: n + 1 });
        clock.advance(half === 0 ? minute - 1 : 1);
      }
    }
    expect(await ask(issuer.mint())).toMatchObject({ status: 200 });
    expect(server.logs).toEqual([]);
  });

  it("looks an unknown key up at once the first time, right after the keys were read", async () => {
    const { issuer, ask } = await createWorld();
    await ask(issuer.mint());
    issuer.rotate();
    expect(await ask(issuer.mint())).toMatchObject({ status: 200 });
  });

  it("reads the keys once for the first token, though its key is unknown", async () => {
    const { issuer, ask } = await createWorld();
    expect(await ask(issuer.mint({}, {}, stranger))).toMatchObject({ status: 401 });
    expect(issuer.count).toEqual({ discovery: 1, keys: 1 });
  });

  it.each<[string, object]>([
    ["that has expired", { exp: 1 }],
    ["of another issuer", { iss: "https://another.example" }],
    ["for another audience", { aud: "another" }],
    ["without an expiry", { exp: undefined }],
  ])("reads no keys for an unknown key in a token %s", async (_, claims) => {
    const { issuer, ask } = await createWorld();
    expect((await ask(issuer.mint(claims, {}, stranger))).status).toBe(401);
    expect(issuer.count).toEqual({ discovery: 0, keys: 0 });
    await ask(issuer.mint());
    expect((await ask(issuer.mint(claims, {}, stranger))).status).toBe(401);
    expect(issuer.count).toEqual({ discovery: 1, keys: 1 });
  });

  it("answers 503 to unknown keys while the issuer is down, and accepts known keys", async () => {
    const { issuer, clock, ask } = await createWorld();
    const token = issuer.mint();
    await ask(token);
    issuer.answer = down;
    const unknown = { status: 503, error: "The token issuer is unavailable", retryAfter: "60" };
    expect(await ask(issuer.mint({}, {}, stranger))).toMatchObject(unknown);
    clock.advance(45_500);
    expect(await ask(issuer.mint({}, {}, stranger))).toMatchObject({ ...unknown, retryAfter: "15" });
    expect(await ask(token)).toMatchObject({ status: 200 });
    expect(issuer.count.keys).toBe(2);
    issuer.answer = undefined;
    clock.advance(14_500);
    expect(await ask(issuer.mint({}, {}, stranger))).toMatchObject({ status: 401 });
    expect(issuer.count).toEqual({ discovery: 2, keys: 3 });
  });
});

describe("unknown keys that come at once", () => {
  const askMany = ({ issuer, ask }: World) =>
    Promise.all(Array.from({ length: 10 }, (_, n) => ask(issuer.mint({}, { kid: `unknown-${n}` }, stranger))));

  it("answers simultaneous unknown keys with 503 if their shared read fails, and with 401 if it succeeds", async () => {
    const world = await createWorld();
    await world.ask(world.issuer.mint());
    world.issuer.answer = down;
    for (const { status } of await askMany(world)) expect(status).toBe(503);
    world.issuer.answer = undefined;
    world.clock.advance(minute);
    for (const { status } of await askMany(world)) expect(status).toBe(401);
    expect(world.issuer.count.keys).toBe(3);
  });
});

describe("a failed read", () => {
  it("shares a failed read of the keys between all requests, and repeats it once a minute", async () => {
    const { issuer, clock, ask, server } = await createWorld();
    issuer.answer = down;
    for (let n = 1; n <= 3; n++) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => ask(issuer.mint())));
      for (const answer of answers) expect(answer).toMatchObject({ status: 503, retryAfter: "60" });
      expect(issuer.count).toEqual({ discovery: n, keys: 0 });
      clock.advance(minute - 1);
      expect(await ask(issuer.mint())).toMatchObject({ status: 503, retryAfter: "1" });
      expect(issuer.count).toEqual({ discovery: n, keys: 0 });
      clock.advance(1);
    }
    // One line for each read, not for each request.
    expect(server.logs).toHaveLength(3);
    expect(server.logs[0]).toMatchObject({ level: "error", message: "The authentication provider failed" });
    expect(server.logs[0]!.data!["error"]).toMatch(/^The keys of http:\S+ could not be read: GET http:\S+: \w+/);
    issuer.answer = undefined;
    expect(await ask(issuer.mint())).toMatchObject({ status: 200 });
  });

  it("reads the discovery document again after a failed read of the keys", async () => {
    const { issuer, clock, ask } = await createWorld();
    issuer.discovery = { jwks_uri: `${issuer.url}/nothing` };
    expect(await ask(issuer.mint())).toMatchObject({ status: 503 });
    issuer.discovery = {};
    clock.advance(minute);
    expect(await ask(issuer.mint())).toMatchObject({ status: 200 });
    expect(issuer.count).toEqual({ discovery: 2, keys: 1 });
  });
});

describe("keys that cannot be read again", () => {
  it("uses keys that cannot be read again for one hour, and asks for them once a minute", async () => {
    const { issuer, clock, ask } = await createWorld();
    await ask(issuer.mint());
    issuer.answer = down;
    clock.advance(10 * minute);
    for (let age = 10; age < 60; age++) {
      const tried = issuer.count.discovery;
      for (let n = 0; n < 3; n++) expect(await ask(issuer.mint({ jti: String(n) }))).toMatchObject({ status: 200 });
      await until(() => issuer.count.discovery === tried + 1, "the next attempt");
      // The failure is noted after the issuer has seen the request.
      expect(await ask(issuer.mint({}, {}, stranger))).toMatchObject({ status: 503 });
      expect(issuer.count.discovery).toBe(tried + 1);
      clock.advance(minute);
    }
    expect(await ask(issuer.mint())).toMatchObject({ status: 503, error: "The token issuer is unavailable" });
    issuer.answer = undefined;
    clock.advance(minute);
    expect(await ask(issuer.mint())).toMatchObject({ status: 200 });
  });

  it("does not delay a request for keys while the issuer is known to be down", async () => {
    const { issuer, clock, ask } = await createWorld();
    await ask(issuer.mint());
    issuer.answer = down;
    clock.advance(10 * minute);
    expect(await ask(issuer.mint())).toMatchObject({ status: 200 });
    clock.advance(minute);
    // It never answers, and no time passes.
    issuer.answer = () => {};
    expect(await ask(issuer.mint())).toMatchObject({ status: 200 });
    await until(() => issuer.count.discovery === 3, "an attempt in the background");
  });
});
