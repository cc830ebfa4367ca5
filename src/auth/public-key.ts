import { createPublicKey, type KeyObject } from "node:crypto";

export const publicKeyAlgorithms = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
] as const;
/** A signature algorithm with a private key for signing and a public key for verification. */
export type PublicKeyAlgorithm = (typeof publicKeyAlgorithms)[number];

/** Returns true for a text with a key or a certificate in PEM. Other lines may come before it. */
export const isPem = (text: unknown): text is string => typeof text === "string" && /-----BEGIN [\w ]+-----/.test(text);

/**
 * Reads a public key in PEM, and returns the algorithms that it can verify. The first one is the default. Throws an error
 * that completes `publicKey: expected …`, and does not show the key.
 */
export function readPublicKey(pem: unknown): { key: KeyObject; fitting: readonly PublicKeyAlgorithm[] } {
  // Checked by its label, because `createPublicKey` accepts a private key as well.
  if (!isPem(pem)) throw new TypeError(`${expected}, found ${typeof pem === "string" ? "other text" : "no text"}`);
  if (/-----BEGIN [\w ]*PRIVATE KEY-----/.test(pem))
    throw new TypeError(`${expected}, found a private key, which only the issuer of the tokens may have`);
  let key: KeyObject;
  try {
    key = createPublicKey(pem.trim().replaceAll("\\n", "\n")); // line breaks as .env files often have them
  } catch (cause) {
    throw new TypeError(`${expected}, found a PEM text that cannot be read`, { cause });
  }
  const { asymmetricKeyType: type, asymmetricKeyDetails: details = {} } = key;
  if (type === "rsa" && (details.modulusLength ?? 0) < minBits)
    throw new TypeError(`${expected} of at least ${minBits} bits, found one of ${details.modulusLength}`);
  const name = type === "ec" ? details.namedCurve : type;
  const fitting = byKind.get(name ?? "");
  if (!fitting) throw new TypeError(`${expected} (RSA, P-256, P-384, P-521 or Ed25519), found one of type ${name}`);
  return { key, fitting };
}

const expected = "expected a public key in PEM";
/** The size that jose requires of an RSA key. */
const minBits = 2_048;

/** The algorithms by the type or the curve of a key. */
const byKind = new Map<string, readonly PublicKeyAlgorithm[]>([
  ["rsa", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]],
  ["prime256v1", ["ES256"]],
  ["secp384r1", ["ES384"]],
  ["secp521r1", ["ES512"]],
  ["ed25519", ["EdDSA"]],
]);
