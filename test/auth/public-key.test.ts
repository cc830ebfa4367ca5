// Each of these changes makes tests of this file fail: a private key that is accepted; a PEM text as a secret; HS256 beside
// a public key; an algorithm that does not fit the key; all algorithms of a type by default.
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createToken, jwtAuth, type AuthProvider, type JwtAuthOptions } from "agentserve";
import { startTestServer } from "../harness/server.ts";
import { createKeyPair, encode, signByText, signToken, toPem } from "./oidc/sign.ts";

const secret = "a secret of at least thirty-two bytes";
const verify = async (provider: AuthProvider, token: string) => provider.verifyToken(token);
const rsa = createKeyPair("rsa", "RS256");
const pem = toPem(rsa.publicKey);
const claims = { sub: "ada", exp: 4_000_000_000 };

describe("jwtAuth({ publicKey })", () => {
  it.each(["RS256", "ES256", "ES384", "ES512", "EdDSA"])(
    "accepts %s tokens by the type of the public key",
    async (alg) => {
      const key = createKeyPair("k", alg);
      const provider = jwtAuth({ publicKey: toPem(key.publicKey) });
      const token = signToken({ alg }, claims, key);
      for (const _ of [1, 2]) expect(await verify(provider, token)).toMatchObject({ id: "ada" });
      const forged = signToken({ alg }, claims, createKeyPair("k", alg));
      await expect(verify(provider, forged)).rejects.toThrow(new Error("signature verification failed"));
      await expect(verify(provider, signToken({ alg }, { exp: 1 }, key))).rejects.toMatchObject({
        code: "ERR_JWT_EXPIRED",
      });
    },
  );

  it.each(["RS384", "RS512", "PS256", "PS384", "PS512"] as const)(
    "accepts %s tokens if the options name the algorithm",
    async (alg) => {
      const token = signToken({ alg }, claims, { ...rsa, alg });
      const provider = jwtAuth({ publicKey: pem, verifyOptions: { algorithms: [alg] } });
      expect(await verify(provider, token)).toMatchObject({ id: "ada" });
      await expect(verify(jwtAuth({ publicKey: pem }), token)).rejects.toThrow(new Error("algorithm not allowed"));
    },
  );

  it.each<[string, () => string]>([
    ["the PEM text", () => signByText({ alg: "HS256" }, claims, pem)],
    ["the trimmed PEM text", () => signByText({ alg: "HS256" }, claims, pem.trim())],
    [
      "the bytes of the key",
      () => signByText({ alg: "HS256" }, claims, rsa.publicKey.export({ type: "spki", format: "der" })),
    ],
    ["nothing", () => `${encode({ alg: "none" })}.${encode(claims)}.`],
  ])("refuses a token that is signed with %s", async (_, make) => {
    await expect(verify(jwtAuth({ publicKey: pem }), make())).rejects.toThrow(new Error("algorithm not allowed"));
  });

  it("ignores keys in the header of a token", async () => {
    const mine = createKeyPair("mine", "RS256");
    const token = signToken({ alg: "RS256", jwk: mine.jwk, jku: "http://127.0.0.1:1/" }, claims, mine);
    await expect(verify(jwtAuth({ publicKey: pem }), token)).rejects.toThrow(
      new Error("signature verification failed"),
    );
  });

  it("checks the audience and the issuer of a token with a public key", async () => {
    const provider = jwtAuth({ publicKey: pem, verifyOptions: { audience: "a", issuer: "i" } });
    const toToken = (more: object) => signToken({ alg: "RS256" }, { ...claims, aud: "a", iss: "i", ...more }, rsa);
    expect(await verify(provider, toToken({ aud: ["b", "a"] }))).toMatchObject({ id: "ada" });
    await expect(verify(provider, toToken({ aud: "b" }))).rejects.toThrow("claim aud has an unexpected value");
    await expect(verify(provider, toToken({ iss: "i/" }))).rejects.toThrow("claim iss has an unexpected value");
  });

  it("refuses tokens without an expiry, unless the options say otherwise", async () => {
    const endless = signToken({ alg: "RS256" }, { sub: "ada" }, rsa);
    const auth = jwtAuth({ publicKey: pem });
    const server = await startTestServer("in process", { config: { auth } });
    const { status, body } = await server.get("/executions", { headers: { authorization: `Bearer ${endless}` } });
    expect([status, body.error]).toEqual([401, "Invalid token: claim exp is missing"]);
    const lenient = jwtAuth({ publicKey: pem, verifyOptions: { requireExpiry: false } });
    for (const _ of [1, 2]) expect(await verify(lenient, endless)).toMatchObject({ id: "ada" });
    const own = await createToken({ sub: "ada" }, secret);
    expect(await verify(jwtAuth({ secret }), own)).toMatchObject({ id: "ada" });
    const strict = jwtAuth({ secret, verifyOptions: { requireExpiry: true } });
    await expect(verify(strict, own)).rejects.toThrow(new Error("claim exp is missing"));
    expect(await verify(strict, await createToken({ sub: "ada" }, secret, { expiresIn: "1h" }))).toBeDefined();
    const wrong = { publicKey: pem, verifyOptions: { requireExpiry: "no" } } as unknown as JwtAuthOptions;
    expect(() => jwtAuth(wrong)).toThrow("verifyOptions.requireExpiry: expected true or false");
  });

  it("reads a public key after other lines, and with escaped line breaks", async () => {
    const token = signToken({ alg: "RS256" }, claims, rsa);
    for (const text of [`\n  ${pem}`, `Bag Attributes\n${pem}`, pem.replaceAll("\n", String.raw`\n`)])
      expect(await verify(jwtAuth({ publicKey: text }), token)).toMatchObject({ id: "ada" });
    const pkcs1 = rsa.publicKey.export({ type: "pkcs1", format: "pem" }) as string;
    expect(await verify(jwtAuth({ publicKey: pkcs1 }), token)).toMatchObject({ id: "ada" });
  });

  const privatePem = (type: "pkcs8" | "pkcs1") => rsa.privateKey.export({ type, format: "pem" }) as string;
  const ec = createKeyPair("ec");
  const found = (text: string) => `jwtAuth(): publicKey: expected a public key in PEM, found ${text}`;
  const other = (type: "x25519" | "ed448") => toPem(generateKeyPairSync(type as "x25519").publicKey);
  it.each<[string, () => unknown, string | RegExp]>([
    [
      "a private key",
      () => ({ publicKey: privatePem("pkcs8") }),
      found("a private key, which only the issuer of the tokens may have"),
    ],
    [
      "an RSA private key",
      () => ({ publicKey: privatePem("pkcs1") }),
      found("a private key, which only the issuer of the tokens may have"),
    ],
    [
      "a private key of a curve",
      () => ({ publicKey: ec.privateKey.export({ type: "sec1", format: "pem" }) }),
      /found a private key/,
    ],
    [
      "a private key after a public one",
      () => ({ publicKey: `${pem}\n${privatePem("pkcs8")}` }),
      /found a private key/,
    ],
    ["a variable that is not set", () => ({ publicKey: undefined }), found("nothing")],
    ["a JWK", () => ({ publicKey: JSON.stringify(rsa.jwk) }), found("other text")],
    ["an object", () => ({ publicKey: rsa.jwk }), found("no text")],
    ["an empty text", () => ({ publicKey: "" }), found("other text")],
    ["half a key", () => ({ publicKey: pem.slice(0, 80) }), found("a PEM text that cannot be read")],
    [
      "a short RSA key",
      () => ({ publicKey: toPem(generateKeyPairSync("rsa", { modulusLength: 1_024 }).publicKey) }),
      /at least 2048 bits, found one of 1024/,
    ],
    [
      "another curve",
      () => ({ publicKey: toPem(generateKeyPairSync("ec", { namedCurve: "secp256k1" }).publicKey) }),
      /found one of type secp256k1/,
    ],
    ["a key that cannot sign", () => ({ publicKey: other("x25519") }), /found one of type x25519/],
    ["Ed448", () => ({ publicKey: other("ed448") }), /found one of type ed448/],
    [
      "a secret beside it",
      () => ({ publicKey: pem, secret }),
      "jwtAuth(): expected a secret or a publicKey, found both",
    ],
    [
      "HS256 beside it",
      () => ({ publicKey: pem, verifyOptions: { algorithms: ["HS256"] } }),
      /algorithms.0: expected one of RS256, .*, EdDSA beside a publicKey, found "HS256"/,
    ],
    [
      "HS256 among others",
      () => ({ publicKey: pem, verifyOptions: { algorithms: ["RS256", "HS256"] } }),
      /algorithms.1: expected one of RS256/,
    ],
    [
      "an algorithm of another key",
      () => ({ publicKey: pem, verifyOptions: { algorithms: ["ES256"] } }),
      "jwtAuth(): publicKey: expected a key for ES256, found one for RS256, RS384",
    ],
    [
      "an algorithm of another curve",
      () => ({ publicKey: toPem(ec.publicKey), verifyOptions: { algorithms: ["ES384"] } }),
      "expected a key for ES384, found one for ES256",
    ],
    ["a public key as a secret", () => ({ secret: pem }), /found a PEM key: pass a public key as publicKey/],
    ["a public key after other lines as a secret", () => ({ secret: `Bag Attributes\n${pem}` }), /found a PEM key/],
    ["a private key as a secret", () => ({ secret: privatePem("pkcs8") }), /found a PEM key/],
  ])("refuses jwtAuth() with %s when the config is loaded", (_, make, message) => {
    expect(() => jwtAuth(make() as JwtAuthOptions)).toThrow(message);
  });

  it("does not show a key in an error message", () => {
    for (const publicKey of [privatePem("pkcs8"), pem.slice(0, 80)]) {
      const line = publicKey.split("\n")[1]!.slice(0, 12);
      expect(() => jwtAuth({ publicKey })).toThrow(
        expect.objectContaining({ message: expect.not.stringContaining(line) }),
      );
    }
  });

  it("refuses to create a token with a public key for its secret", async () => {
    await expect(createToken({ sub: "eve" }, pem)).rejects.toThrow(
      "createToken(): secret: expected a non-empty string",
    );
  });
});
