import { constants, createHmac, generateKeyPairSync, sign, type KeyObject } from "node:crypto";

/** A key pair of an issuer, with the JWK that it publishes. */
export interface KeyPair {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly jwk: Record<string, unknown>;
}

export function createKeyPair(kid: string, alg = "ES256"): KeyPair {
  const { privateKey, publicKey } = generate(alg);
  return { kid, alg, privateKey, publicKey, jwk: { ...publicKey.export({ format: "jwk" }), kid, alg, use: "sig" } };
}

const curves: Record<string, string> = { ES256: "P-256", ES384: "P-384", ES512: "P-521" };
function generate(alg: string): { privateKey: KeyObject; publicKey: KeyObject } {
  const namedCurve = curves[alg];
  if (namedCurve) return generateKeyPairSync("ec", { namedCurve });
  if (alg === "EdDSA") return generateKeyPairSync("ed25519");
  const at = turn++ % rsaPairs;
  return (rsa[at] ??= generateKeyPairSync("rsa", { modulusLength: 2_048 }));
}

/** To generate an RSA key takes up to a second: the keys are used in turn. A test has fewer than that. */
const rsaPairs = 4;
const rsa: { privateKey: KeyObject; publicKey: KeyObject }[] = [];
let turn = 0;

export const toPem = (key: KeyObject): string => key.export({ type: "spki", format: "pem" }) as string;

/** A token made by hand: neither the header nor the payload is checked. */
export function signToken(header: object, payload: object, { alg, privateKey }: KeyPair): string {
  const text = `${encode(header)}.${encode(payload)}`;
  return `${text}.${toSignature(alg, Buffer.from(text), privateKey).toString("base64url")}`;
}

function toSignature(alg: string, data: Buffer, key: KeyObject): Buffer {
  if (alg === "EdDSA") return sign(null, data, key);
  const hash = `sha${alg.slice(2)}`;
  if (alg.startsWith("ES")) return sign(hash, data, { key, dsaEncoding: "ieee-p1363" });
  const padding = alg.startsWith("PS") ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING;
  return sign(hash, data, { key, padding, saltLength: constants.RSA_PSS_SALTLEN_DIGEST });
}

/** A token with a symmetric signature: what an attacker can make of a public key. */
export function signByText(header: { alg: string; kid?: string }, payload: object, secret: string | Buffer): string {
  const text = `${encode(header)}.${encode(payload)}`;
  return `${text}.${createHmac(`sha${header.alg.slice(2)}`, secret)
    .update(text)
    .digest("base64url")}`;
}

export const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
