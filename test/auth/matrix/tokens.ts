import { createHmac } from "node:crypto";
import { createSigner, type Algorithm } from "fast-jwt";
import type { TestIssuer } from "../oidc/issuer.ts";
import { createKeyPair, encode, signByText, signToken, toPem, type KeyPair } from "../oidc/sign.ts";
import type { Mode } from "./oracle-modes.ts";

export const secret = "a-secret-of-this-test-that-is-long-enough-for-every-algorithm-of-the-family";
export const audience = "my-api"; // that of the test issuer
export const issuer = "matrix-issuer";

const second = 1_000;
const hour = 3_600 * second;

interface Claims {
  sub?: string;
  aud?: string | string[] | undefined;
  iss?: string | undefined;
  exp?: number | undefined;
  nbf?: number;
}

/** Made by another library than the server's. */
export function mint(claims: Claims = {}, algorithm: Algorithm = "HS256", key = secret, header: object = {}): string {
  return createSigner({ algorithm, key, noTimestamp: true, header: { alg: algorithm, ...header } })(toPayload(claims));
}

function toPayload(claims: Claims): object {
  const now = Math.floor(Date.now() / second);
  return { sub: "ada", aud: audience, iss: issuer, iat: now, exp: now + hour / second, ...claims };
}

/** The tokens of the oracle by their names. */
export type Minted = ReadonlyMap<string, string>;

/** `<name>`, as the oracle writes it, becomes the token of that name. */
export function fill(text: string, minted: Minted): string {
  return text.replace(/<([^>]+)>/g, (_, name: string) => {
    const token = minted.get(name);
    if (token === undefined) throw new Error(`no token is called ${name}`);
    return token;
  });
}

/** The key of the tokens that are verified by a public key. */
export const keyPair: KeyPair = createKeyPair("key-0");

/** The way in which the tokens of a provider are signed, and the ways of an attacker who knows what is public. */
interface Signer {
  sign(claims?: Claims, header?: object): string;
  /** With another key or secret. */
  forge(claims?: Claims, header?: object): string;
  /** With a symmetric algorithm that is not allowed. */
  confuse(alg: "HS384" | "HS512"): string;
}

/** The tokens of a provider. Those of an issuer are its own. */
export function mintFor(provider: Mode["provider"], tokenIssuer?: TestIssuer): Minted {
  if (provider === "oidc") return mintAll(toKeySigner(tokenIssuer!.keys[0]!, tokenIssuer!.url));
  return provider === "keys" ? mintAll(toKeySigner(keyPair, issuer)) : mintAll(secretSigner);
}

const secretSigner: Signer = {
  sign: (claims, header) => mint(claims, "HS256", secret, header),
  forge: (claims, header) => mint(claims, "HS256", `${secret}.`, header),
  confuse: (alg) => mint({}, alg),
};

function toKeySigner(key: KeyPair, iss: string): Signer {
  const attacker = createKeyPair(key.kid);
  const toHeader = (header: object) => ({ alg: key.alg, typ: "JWT", kid: key.kid, ...header });
  return {
    sign: (claims, header = {}) => signToken(toHeader(header), toPayload({ iss, ...claims }), key),
    forge: (claims, header = {}) =>
      signToken(
        { ...toHeader(header), ...("jwk" in header && { jwk: attacker.jwk }) },
        toPayload({ iss, ...claims }),
        attacker,
      ),
    confuse: (alg) => signByText({ alg }, toPayload({ iss }), toPem(key.publicKey)),
  };
}

export const sessions: Minted = new Map(
  ["valid", "expired", "unknown", "nobody", "thrown text", "banned"].map((name) => [
    `session ${name}`,
    `${name.replace(" ", "-")}-session-5e21`,
  ]),
);

function mintAll({ sign, forge, confuse }: Signer): Minted {
  const at = (milliseconds: number): number => Math.floor((Date.now() + milliseconds) / second);
  const valid = sign();
  const [head, payload, signature] = valid.split(".") as [string, string, string];
  const [, eve] = sign({ sub: "eve" }).split(".");
  const symmetric = encode({ alg: "HS256", typ: "JWT" });
  const unsigned = createHmac("sha256", "").update(`${symmetric}.${payload}`).digest("base64url");
  return new Map([
    ["valid", valid],
    ["audience in a list", sign({ aud: ["another", audience] })],
    ["expired", sign({ exp: at(-hour) })],
    ["expired a second ago", sign({ exp: at(-second) })],
    ["not yet valid", sign({ nbf: at(hour) })],
    ["wrong secret", forge()],
    ["expired, wrong secret", forge({ exp: at(-hour) })],
    ["empty secret", `${symmetric}.${payload}.${unsigned}`],
    ["HS512", confuse("HS512")],
    ["HS384", confuse("HS384")],
    ["alg none", `${encode({ alg: "none", typ: "JWT" })}.${payload}.`],
    ["alg nOnE", `${encode({ alg: "nOnE", typ: "JWT" })}.${payload}.${signature}`],
    ["wrong audience", sign({ aud: "another-audience" })],
    ["no audience", sign({ aud: undefined })],
    ["wrong issuer", sign({ iss: "another-issuer" })],
    ["no issuer", sign({ iss: undefined })],
    ["no expiry", sign({ exp: undefined })],
    ["another kid", sign({}, { kid: "another" })],
    ["its own key in the header", forge({}, { jwk: { kty: "oct", k: encode(`${secret}.`) } })],
    ["another payload", `${head}.${eve}.${signature}`],
    ["signature cut off", `${head}.${payload}.`],
    ["garbage", "garbage-3f9c1d77"],
    ["garbage with dots", "garbage-aa01.garbage-bb02.garbage-cc03"],
    ...sessions,
  ]);
}
