// Each of these changes makes tests of this file fail: HS256 in the list of algorithms; a token without `exp`, or with
// another `iss` or `aud`; keys from the header of a token; a token of another type; keys that are not for signatures.
import { describe, expect, it } from "vitest";
import { oidcAuth, type OidcAuthOptions } from "agentserve";
import { createKeyPair, encode, signByText, signToken, toPem } from "./sign.ts";
import { startIssuer, type TestIssuer } from "./issuer.ts";
import { createWorld } from "./world.ts";

const attacker = createKeyPair("key-0");
const rsa = createKeyPair("rsa", "RS256");

describe.each(["ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"])(
  "an issuer with %s",
  (alg) => {
    it("accepts a token of the issuer, and refuses one of an attacker with the same algorithm and key name", async () => {
      const { issuer, ask } = await createWorld({ issuerOptions: { alg } });
      expect(await ask(issuer.mint())).toMatchObject({ status: 200, user: "ada" });
      const forged = issuer.mint({ sub: "eve" }, {}, createKeyPair("key-0", alg));
      expect(await ask(forged)).toMatchObject({ status: 401, error: "Invalid token: signature verification failed" });
    });
  },
);

/** The claims of a valid token. */
function claimsOf({ url, audience }: TestIssuer): Record<string, unknown> {
  const seconds = Math.floor(Date.now() / 1_000);
  return { iss: url, aud: audience, sub: "eve", iat: seconds, exp: seconds + 3_600 };
}
const seconds = (): number => Math.floor(Date.now() / 1_000);

describe("a token", () => {
  it.each<[string, (issuer: TestIssuer) => string, string]>([
    ...["PEM", "JWK", "JWKS", "x"].map((what): [string, (issuer: TestIssuer) => string, string] => [
      `HS256, signed with the ${what} of the public key`,
      (issuer) => {
        const [key] = issuer.keys;
        const jwk = JSON.stringify(key!.jwk);
        const secrets = { PEM: toPem(key!.publicKey), JWK: jwk, JWKS: `{"keys":[${jwk}]}`, x: String(key!.jwk["x"]) };
        return signByText({ alg: "HS256", kid: "key-0" }, claimsOf(issuer), secrets[what as keyof typeof secrets]);
      },
      "algorithm not allowed",
    ]),
    [
      "HS256, signed with nothing",
      (issuer) => signByText({ alg: "HS256" }, claimsOf(issuer), ""),
      "algorithm not allowed",
    ],
    [
      "alg none without a signature",
      (issuer) => `${encode({ alg: "none" })}.${encode(claimsOf(issuer))}.`,
      "malformed",
    ],
    ["alg none with a signature", (issuer) => issuer.mint({}, { alg: "none" }), "algorithm not allowed"],
    ["alg NONE", (issuer) => issuer.mint({}, { alg: "NONE" }), "algorithm not allowed"],
    ["alg in small letters", (issuer) => issuer.mint({}, { alg: "es256" }), "algorithm not allowed"],
    ["no alg", (issuer) => issuer.mint({}, { alg: undefined }), "algorithm not allowed"],
    ["an alg that is a list", (issuer) => issuer.mint({}, { alg: ["ES256"] }), "algorithm not allowed"],
    ["an alg of another kind of key", (issuer) => issuer.mint({}, { alg: "RS256" }), "unknown key"],
    ["an alg of another curve", (issuer) => issuer.mint({}, { alg: "ES384" }), "unknown key"],
    ["another alg of the same key", (issuer) => issuer.mint({}, { alg: "PS256" }, issuer.keys[1]), "unknown key"],
    ["the kid of another key", (issuer) => issuer.mint({}, { kid: "rsa" }), "unknown key"],
    ["a kid with a path", (issuer) => issuer.mint({}, { kid: "../../dev/null" }), "unknown key"],
    ["a kid that objects have", (issuer) => issuer.mint({}, { kid: "__proto__" }), "unknown key"],
    ["an empty kid", (issuer) => issuer.mint({}, { kid: "" }), "unknown key"],
    ["a kid that is an object", (issuer) => issuer.mint({}, { kid: {} }), "malformed"],
    ["a kid that is null", (issuer) => issuer.mint({}, { kid: null }), "malformed"],
    ["a key that is for encryption", (issuer) => issuer.mint({}, {}, encryption), "unknown key"],
    ["a key without the operation", (issuer) => issuer.mint({}, {}, withoutVerify), "unknown key"],
    [
      "its own key in the header (jwk)",
      (issuer) => issuer.mint({}, { jwk: attacker.jwk }, attacker),
      "signature verification failed",
    ],
    [
      "its own key in the header, and an unknown kid",
      (issuer) => issuer.mint({}, { jwk: attacker.jwk, kid: "mine" }, attacker),
      "unknown key",
    ],
    [
      "the address of its own keys (jku)",
      (issuer) => issuer.mint({}, { jku: `${issuer.url}/attacker`, kid: "mine" }, attacker),
      "unknown key",
    ],
    [
      "the address of its own certificate (x5u)",
      (issuer) => issuer.mint({}, { x5u: `${issuer.url}/attacker` }, attacker),
      "signature verification failed",
    ],
    [
      "its own certificate (x5c)",
      (issuer) => issuer.mint({}, { x5c: ["MIIB"] }, attacker),
      "signature verification failed",
    ],
    ["an extension that must be understood", (issuer) => issuer.mint({}, { crit: ["exp"], exp: 1 }), "malformed"],
    ["an unencoded payload", (issuer) => issuer.mint({}, { b64: false, crit: ["b64"] }), "malformed"],
    ["the type of a logout", (issuer) => issuer.mint({}, { typ: "logout+jwt" }), "not an access token"],
    ["a type that is no text", (issuer) => issuer.mint({}, { typ: ["JWT"] }), "not an access token"],
    ["another payload", (issuer) => toOther(issuer), "signature verification failed"],
    ["no expiry", (issuer) => issuer.mint({ exp: undefined }), "claim exp is missing"],
    ["an expiry that is a text", (issuer) => issuer.mint({ exp: "9999999999" }), "claim exp has an unexpected value"],
    ["a later beginning", (issuer) => issuer.mint({ nbf: seconds() + 600 }), "not yet valid"],
    ["no issuer", (issuer) => issuer.mint({ iss: undefined }), "claim iss is missing"],
    [
      "the issuer with a slash at the end",
      (issuer) => issuer.mint({ iss: `${issuer.url}/` }),
      "claim iss has an unexpected value",
    ],
    [
      "the issuer in capitals",
      (issuer) => issuer.mint({ iss: issuer.url.toUpperCase() }),
      "claim iss has an unexpected value",
    ],
    ["the issuer in a list", (issuer) => issuer.mint({ iss: [issuer.url] }), "claim iss has an unexpected value"],
    ["no audience", (issuer) => issuer.mint({ aud: undefined }), "claim aud is missing"],
    ["another audience", (issuer) => issuer.mint({ aud: "my-api-2" }), "claim aud has an unexpected value"],
    [
      "other audiences in a list",
      (issuer) => issuer.mint({ aud: ["a", "my-api "] }),
      "claim aud has an unexpected value",
    ],
    ["an empty list of audiences", (issuer) => issuer.mint({ aud: [] }), "claim aud has an unexpected value"],
    [
      "an audience that is an object",
      (issuer) => issuer.mint({ aud: { 0: "my-api" } }),
      "claim aud has an unexpected value",
    ],
    [
      "a payload that is a list",
      (issuer) => signToken({ alg: "ES256", kid: "key-0" }, [1], issuer.keys[0]!),
      "malformed",
    ],
    ["four parts", (issuer) => `${issuer.mint()}.x`, "malformed"],
    ["characters that are not base64url", (issuer) => `${issuer.mint()}=`, "malformed"],
  ])("refuses an OIDC token with %s, before and after another was accepted", async (_, make, reason) => {
    const { issuer, ask, clock, server } = await createWorld();
    issuer.keys.push(rsa, encryption, withoutVerify);
    const expected = { status: 401, error: `Invalid token: ${reason}` };
    expect(await ask(make(issuer))).toMatchObject(expected);
    expect(await ask(issuer.mint())).toMatchObject({ status: 200, user: "ada" });
    expect(await ask(make(issuer))).toMatchObject(expected);
    clock.advance(60_000);
    expect(await ask(make(issuer))).toMatchObject(expected);
    expect(await ask(make(issuer), "/open")).toMatchObject({ status: 200, user: null });
    expect(server.logs).toEqual([]);
  });

  it.each<[string, object, object]>([
    ["several audiences", { aud: ["another", "my-api"] }, {}],
    ["the type of an access token", {}, { typ: "at+jwt" }],
    ["the whole type", {}, { typ: "application/at+JWT" }],
    ["no type", {}, { typ: undefined }],
    ["no kid, if one key fits", {}, { kid: undefined }],
    ["an address of keys that is ignored", {}, { jku: "http://127.0.0.1:1/", x5u: "http://127.0.0.1:1/" }],
  ])("accepts an OIDC token with %s", async (_, claims, header) => {
    const { issuer, ask } = await createWorld();
    expect(await ask(issuer.mint(claims, header))).toMatchObject({ status: 200, user: "ada" });
    expect(issuer.count).toEqual({ discovery: 1, keys: 1 });
  });

  it("verifies a token without a kid with each matching key", async () => {
    const { issuer, ask } = await createWorld();
    issuer.keys.push(createKeyPair("second"), createKeyPair("third"));
    for (const key of issuer.keys)
      expect(await ask(issuer.mint({ sub: key.kid }, { kid: undefined }, key))).toMatchObject({ user: key.kid });
    expect(await ask(issuer.mint({}, { kid: undefined }, attacker))).toMatchObject({ status: 401 });
  });

  it("refuses an accepted token when it expires", async () => {
    const { issuer, clock, ask } = await createWorld();
    const token = issuer.mint({ exp: Math.floor(clock.now() / 1_000) + 60 });
    expect(await ask(token)).toMatchObject({ status: 200 });
    clock.advance(60_000);
    expect(await ask(token)).toMatchObject({ status: 401, error: "Token expired" });
    issuer.answer = (_, response) => void response.destroy();
    clock.advance(3_600_000);
    expect(await ask(token)).toMatchObject({ status: 401, error: "Token expired" });
  });

  it("refuses a token with an algorithm that the options leave out", async () => {
    const { issuer, ask } = await createWorld({ algorithms: ["RS256"] });
    issuer.keys.push(rsa);
    expect(await ask(issuer.mint())).toMatchObject({ error: "Invalid token: algorithm not allowed" });
    expect(await ask(issuer.mint({}, {}, rsa))).toMatchObject({ status: 200 });
  });

  it("takes the id of a user from sub only, because a user may edit other claims at the issuer", async () => {
    const { issuer, ask } = await createWorld();
    for (const _ of [1, 2]) expect(await ask(issuer.mint({ id: "grace" }))).toMatchObject({ user: "ada" });
    expect(await ask(issuer.mint({ id: "grace", sub: undefined }))).toMatchObject({ status: 200, user: null });
    const mapped = await createWorld({ mapUser: ({ id }) => ({ id }) });
    expect(await mapped.ask(mapped.issuer.mint({ id: "grace" }))).toMatchObject({ user: "grace" });
  });

  it("maps the user of a token by mapUser, and accepts one of several audiences", async () => {
    const { issuer, ask } = await createWorld({
      audience: ["web", "my-api"],
      mapUser: ({ sub }) => ({ id: `user:${sub}` }),
    });
    for (const aud of ["web", "my-api", ["web", "x"]])
      expect(await ask(issuer.mint({ aud }))).toMatchObject({ status: 200, user: "user:ada" });
    expect(await ask(issuer.mint({ aud: "x" }))).toMatchObject({ status: 401 });
  });

  it("refuses a token of a key whose private part is published", async () => {
    const { issuer, ask } = await createWorld();
    const [key] = issuer.keys;
    issuer.keys = [{ ...key!, jwk: { ...key!.privateKey.export({ format: "jwk" }), kid: "key-0" } }];
    expect(await ask(issuer.mint())).toMatchObject({ status: 401, error: "Invalid token: unknown key" });
  });
});

const spoil = (kid: string, fields: object) => {
  const key = createKeyPair(kid);
  return { ...key, jwk: { ...key.jwk, ...fields } };
};
const encryption = spoil("encryption", { use: "enc" });
const withoutVerify = spoil("without-verify", { use: undefined, key_ops: ["encrypt"] });

function toOther(issuer: TestIssuer): string {
  const [head, , signature] = issuer.mint().split(".");
  return `${head}.${encode(claimsOf(issuer))}.${signature}`;
}

describe("oidcAuth()", () => {
  const good = { issuer: "https://login.example", audience: "my-api" };
  it.each<[string, unknown, string | RegExp]>([
    ["no options", undefined, "oidcAuth(): expected an object such as { issuer, audience }, found nothing"],
    ["no issuer", { audience: "x" }, "oidcAuth(): issuer: expected a string, found nothing"],
    ["no audience", { issuer: good.issuer }, /oidcAuth\(\): audience: expected the audience of the tokens/],
    ["an empty audience", { ...good, audience: "" }, /oidcAuth\(\): audience/],
    ["an empty list of audiences", { ...good, audience: [] }, /oidcAuth\(\): audience/],
    ["an issuer over http", { ...good, issuer: "http://login.example" }, /oidcAuth\(\): issuer: expected an https URL/],
    ["an issuer that is no URL", { ...good, issuer: "login.example" }, /issuer: expected an https URL/],
    ["an issuer like a machine of its own", { ...good, issuer: "http://localhost.example" }, /expected an https URL/],
    ["an issuer with a password", { ...good, issuer: "https://a:b@login.example" }, /without credentials/],
    ["an issuer with a query", { ...good, issuer: "https://login.example/?a=1" }, /without credentials, query/],
    ["an issuer with an empty fragment", { ...good, issuer: "https://login.example/#" }, /query and fragment/],
    ["a symmetric algorithm", { ...good, algorithms: ["HS256"] }, /algorithms.0: expected one of RS256, .*"HS256"/],
    ["no algorithm", { ...good, algorithms: ["none"] }, /algorithms.0: expected one of RS256/],
    ["an empty list of algorithms", { ...good, algorithms: [] }, /at least one algorithm/],
    ["a secret", { ...good, secret: "x" }, /secret: unknown key/],
    [
      "a misspelt option",
      { ...good, defaultPrivat: true },
      /defaultPrivat: unknown key; did you mean defaultPrivate\?/,
    ],
  ])("refuses oidcAuth() with %s", (_, options, message) => {
    expect(() => oidcAuth(options as OidcAuthOptions)).toThrow(message);
  });

  it("accepts an issuer over http on this machine", () => {
    for (const host of ["localhost:8080", "127.0.0.1", "[::1]:3000", "login.localhost"])
      expect(oidcAuth({ ...good, issuer: `http://${host}` })).toMatchObject({ type: "oidc" });
  });
});

describe("the keys of an issuer", () => {
  it("reads the keys of an issuer once for two tokens", async () => {
    const issuer = await startIssuer();
    const provider = oidcAuth({ issuer: issuer.url, audience: issuer.audience });
    for (const _ of [1, 2]) expect(await provider.verifyToken(issuer.mint())).toMatchObject({ id: "ada" });
    expect(issuer.count).toEqual({ discovery: 1, keys: 1 });
    await issuer.close();
  });
});
