import { createSigner, createVerifier } from "fast-jwt";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createServer, createToken, jwtAuth, type AuthProvider, type JwtAuthOptions } from "agentserve";
import { startServer } from "../harness/server.ts";

const secret = "a secret of at least thirty-two bytes";
const nobody = /expected a non-empty string that only token issuers know, found/;
const seconds = (): number => Math.floor(Date.now() / 1_000);
const verify = async (provider: AuthProvider, token: string) => provider.verifyToken(token);

afterEach(() => void vi.useRealTimers());

describe("createToken", () => {
  it.each(["HS256", "HS384", "HS512"] as const)(
    "creates %s tokens that another library accepts, and accepts those of the other library",
    async (algorithm) => {
      const options = { expiresIn: "2h", audience: "app", issuer: "login", algorithm };
      const token = await createToken({ sub: "ada", roles: ["admin"] }, secret, options);
      const theirs = createVerifier({ key: secret, algorithms: [algorithm], allowedAud: "app", allowedIss: "login" });
      const payload = theirs(token) as Record<string, number>;
      expect(payload).toMatchObject({ sub: "ada", roles: ["admin"], aud: "app", iss: "login" });
      expect(payload["exp"]! - payload["iat"]!).toBe(7_200);
      const sign = createSigner({ key: secret, algorithm, expiresIn: "2h", aud: "app", iss: "login" });
      const provider = jwtAuth({
        secret,
        verifyOptions: { algorithms: [algorithm], audience: "app", issuer: "login" },
      });
      expect(await verify(provider, sign({ sub: "ada", tier: "gold" }))).toMatchObject({ id: "ada", tier: "gold" });
      expect(await verify(provider, token)).toMatchObject({ id: "ada", roles: ["admin"] });
    },
  );

  it("creates a token without an expiry unless it is told otherwise", async () => {
    const payload = createVerifier({ key: secret })(await createToken({ sub: "ada" }, secret)) as object;
    expect(payload).toEqual({ sub: "ada", iat: expect.any(Number) });
  });

  it.each([
    ["soon", /createToken\(\{ expiresIn \}\): expected a duration such as "30m", "12h" or "7d", found "soon"/],
    ["0m", /expected a duration/],
    ["-1h", /expected a duration/],
  ])("refuses a token with the lifetime %j", async (expiresIn, message) => {
    await expect(createToken({}, secret, { expiresIn })).rejects.toThrow(message);
  });

  it("refuses to create a token with an invalid payload, secret or algorithm", async () => {
    await expect(createToken([] as never, secret)).rejects.toThrow(
      "createToken(payload): expected an object, found an array",
    );
    await expect(createToken({}, "")).rejects.toThrow(nobody);
    await expect(createToken({}, secret, { algorithm: "none" as never })).rejects.toThrow(
      /HS256, HS384, HS512, found "none"/,
    );
  });
});

describe("jwtAuth", () => {
  it.each<[string, unknown, string | RegExp]>([
    ["no options", undefined, "jwtAuth(): expected an object such as { secret }, found nothing"],
    ["no secret", {}, nobody],
    ["an empty secret", { secret: "" }, nobody],
    ["a public key for a secret", { secret: "-----BEGIN PUBLIC KEY-----\nMFk" }, /found a PEM key/],
    [
      "a misspelt option",
      { secret, defaultPrivat: true },
      "jwtAuth(): defaultPrivat: unknown key; did you mean defaultPrivate?",
    ],
    [
      "an algorithm with keys of two kinds",
      { secret, verifyOptions: { algorithms: ["RS256"] } },
      /verifyOptions.algorithms.0: expected one of HS256, HS384, HS512, found "RS256"/,
    ],
    [
      "no algorithm",
      { secret, verifyOptions: { algorithms: ["none"] } },
      /expected one of HS256, HS384, HS512, found "none"/,
    ],
    ["an empty list of algorithms", { secret, verifyOptions: { algorithms: [] } }, /at least one algorithm/],
    [
      "an entry without a method",
      { secret, publicRoutes: ["/health"] },
      'publicRoutes.0: expected a method and a path such as "GET /reports/*", found "/health"',
    ],
    ["an entry for HEAD", { secret, publicRoutes: ["HEAD /health"] }, /publicRoutes.0/],
    ["an entry with a path that no router reads", { secret, protect: ["GET /a/**/b/**"] }, /protect.0/],
    ["mapUser that is no function", { secret, mapUser: {} }, "mapUser: expected a function, found an object"],
  ])("refuses jwtAuth() with %s", (_, options, message) => {
    expect(() => jwtAuth(options as JwtAuthOptions)).toThrow(message);
  });

  it("does not show the secret of jwtAuth() in a printed config", () => {
    const provider = jwtAuth({ secret });
    expect(JSON.stringify(provider)).not.toContain(secret);
    expect(`${Object.values(provider).join()}${Reflect.ownKeys(provider).map(String).join()}`).not.toContain(secret);
    expect(() => jwtAuth({ secret: 123_456_789 as never })).toThrow("found a number");
  });

  it.each<[string, () => string | Promise<string>, string]>([
    ["a wrong secret", () => createToken({ sub: "x" }, `${secret}!`), "signature verification failed"],
    ["another algorithm", () => createToken({ sub: "x" }, secret, { algorithm: "HS512" }), "algorithm not allowed"],
    ["no signature", () => createSigner({ algorithm: "none", key: "" })({ sub: "x" }), "algorithm not allowed"],
    ["a later beginning", () => createToken({ nbf: seconds() + 60 }, secret), "not yet valid"],
    [
      "another audience",
      () => createToken({}, secret, { audience: "b", issuer: "i" }),
      "claim aud has an unexpected value",
    ],
    ["no audience", () => createToken({}, secret, { issuer: "i" }), "claim aud is missing"],
    [
      "another issuer",
      () => createToken({}, secret, { audience: "a", issuer: "b" }),
      "claim iss has an unexpected value",
    ],
    [
      "an expiry that is no time",
      () => createToken({ exp: "soon" as never, aud: "a", iss: "i" }, secret),
      "claim exp has an unexpected value",
    ],
    ["garbage", () => "a.b.c", "malformed"],
    ["nothing that looks like a token", () => "x", "malformed"],
    [
      "a header that must be understood",
      () => createSigner({ key: secret, header: { crit: ["<secret words>"] } as never })({}),
      "malformed",
    ],
  ])("names the reason for refusing %s", async (what, make, reason) => {
    const wanted = /audience|issuer|expiry/.test(what) ? { audience: "a", issuer: "i" } : {};
    const provider = jwtAuth({ secret, verifyOptions: wanted });
    await expect(verify(provider, await make())).rejects.toThrow(new Error(reason));
  });

  it("forgets a verified token when it expires, and not before", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 });
    const provider = jwtAuth({ secret });
    const token = await createToken({ sub: "ada" }, secret, { expiresIn: "1m" });
    expect(await verify(provider, token)).toMatchObject({ id: "ada" });
    vi.setSystemTime(1_800_000_059_999);
    expect(await verify(provider, token)).toMatchObject({ id: "ada" });
    vi.setSystemTime(1_800_000_060_000);
    await expect(verify(provider, token)).rejects.toMatchObject({ code: "ERR_JWT_EXPIRED" });
  });

  it("caches at most 1,000 verified tokens, and verifies others again", async () => {
    const provider = jwtAuth({ secret });
    const subjects = Array.from({ length: 1_001 }, (_, n) => `user ${n}`);
    const tokens = await Promise.all(subjects.map((sub) => createToken({ sub }, secret)));
    const isKnown = (token: string) => {
      const answer = provider.verifyToken(token);
      if (answer instanceof Promise) answer.catch(() => {});
      return !(answer instanceof Promise);
    };
    for (const token of tokens) await provider.verifyToken(token);
    expect(tokens.map(isKnown)).toEqual([false, ...Array.from({ length: 1_000 }, () => true)]);
  });

  it("calls mapUser for every request, with an own copy of the payload", async () => {
    const seen: unknown[] = [];
    const mapUser = (payload: Record<string, unknown>) => {
      seen.push({ ...payload });
      payload["sub"] = "changed";
      return { id: `user-${seen.length}` };
    };
    const provider = jwtAuth({ secret, mapUser });
    const token = await createToken({ sub: "ada" }, secret);
    expect([await verify(provider, token), await verify(provider, token)]).toEqual([
      { id: "user-1" },
      { id: "user-2" },
    ]);
    expect(seen).toEqual([expect.objectContaining({ sub: "ada" }), expect.objectContaining({ sub: "ada" })]);
  });
});

describe("a provider of one's own", () => {
  const verifyToken = () => ({ id: "x" });
  it.each<[string, unknown, string]>([
    ["no object", "jwt", "config: auth: expected an authentication provider such as jwtAuth(), found a string"],
    ["no type", { verifyToken }, "config: auth.type: expected a string, found nothing"],
    ["no verifyToken", { type: "x" }, "config: auth.verifyToken: expected a function, found nothing"],
    [
      "an extractToken that is no function",
      { type: "x", verifyToken, extractToken: "cookie" },
      'config: auth.extractToken: expected a function, found "cookie"',
    ],
    [
      "an entry without a method",
      { type: "x", verifyToken, protect: ["/x"] },
      'config: auth.protect.0: expected a method and a path such as "GET /reports/*", found "/x"',
    ],
    [
      "a misspelt option",
      { type: "x", verifyToken, defaultPrivat: true },
      "config: auth.defaultPrivat: unknown key; did you mean defaultPrivate?",
    ],
  ])("refuses a custom provider with %s at the start", (_, auth, message) => {
    expect(() => createServer({ auth: auth as AuthProvider })).toThrow(message);
  });

  it("accepts a custom provider that is an instance of a class", async () => {
    class Keys implements AuthProvider {
      readonly type = "keys";
      readonly #keys = new Map([["k1", "ada"]]);
      readonly note = "anything";
      verifyToken(token: string) {
        const id = this.#keys.get(token);
        if (!id) throw new Error("no such key");
        return { id };
      }
    }
    const server = await startServer("in process", {
      config: {
        auth: new Keys(),
        configureApp: (app) => void app.get("/me", (event) => event.context.authenticatedUser ?? {}),
      },
    });
    const ask = (key: string) => server.get("/me", { custom: true, headers: { authorization: `Bearer ${key}` } });
    expect([(await ask("k1")).body, (await ask("k2")).body]).toEqual([{ id: "ada" }, {}]);
    await server.close();
  });
});
