import { createSecretKey, type KeyObject } from "node:crypto";
import { jwtVerify, SignJWT, type JWTPayload } from "jose";
import { durationRule, fromDuration } from "../core/clock.ts";
import { describe } from "../core/schemas/explain.ts";
import { isObject } from "../core/json.ts";
import { algorithms, checkJwtOptions, kindOf } from "./options.ts";
import type { AccessOptions, AuthProvider } from "./provider.ts";
import { isPem, readPublicKey, type PublicKeyAlgorithm } from "./public-key.ts";
import { toReason } from "./reasons.ts";
import { VerifiedTokens, type VerifiedTokenOptions } from "./verified-tokens.ts";

export type { JWTPayload };
/** A signature algorithm of `createToken()`, and of `jwtAuth()` with a secret. */
export type JwtAlgorithm = (typeof algorithms)[number];
const signing: unique symbol = Symbol("signing");

/** The options of `jwtAuth()`. */
export type JwtAuthOptions = JwtSecretOptions | JwtPublicKeyOptions;

/** The options of `jwtAuth()` for tokens that are signed with a secret. */
export interface JwtSecretOptions extends AccessOptions, VerifiedTokenOptions {
  /** The secret that signs the tokens: 32 or more random bytes. */
  secret: string;
  publicKey?: undefined;
  /** Checks in addition to the signature and the expiry. */
  verifyOptions?: JwtVerifyOptions<JwtAlgorithm> | undefined;
}

/** The options of `jwtAuth()` for tokens that are signed with a private key. */
export interface JwtPublicKeyOptions extends AccessOptions, VerifiedTokenOptions {
  /** The public key that verifies the tokens, in PEM: RSA, P-256, P-384, P-521 or Ed25519. A certificate works as well. */
  publicKey: string;
  secret?: undefined;
  /** Checks in addition to the signature and the expiry. */
  verifyOptions?: JwtVerifyOptions<PublicKeyAlgorithm> | undefined;
}

/** The checks of `jwtAuth()` in addition to the signature and the expiry. */
export interface JwtVerifyOptions<Algorithm extends string> {
  /** The allowed algorithms. @default HS256 for a secret; RS256, ES256, ES384, ES512 or EdDSA by the type of a public key */
  algorithms?: readonly Algorithm[] | undefined;
  /** The required audience (`aud`). @default any */
  audience?: string | undefined;
  /** The required issuer (`iss`). @default any */
  issuer?: string | undefined;
  /** True to refuse tokens without an expiry (`exp`). @default true with a public key, false with a secret */
  requireExpiry?: boolean | undefined;
}

/** A provider made by `jwtAuth()` with a secret, with a signer for the command line. The secret is not exposed. */
export interface JwtProvider extends AuthProvider {
  readonly [signing]: {
    /** True if the secret is short enough to be guessed. */
    readonly isWeak: boolean;
    readonly defaults: Required<Pick<CreateTokenOptions, "algorithm">> & CreateTokenOptions;
    sign(payload: JWTPayload, options: CreateTokenOptions): Promise<string>;
  };
}

/** Returns the signer of a provider, or undefined if the provider was not made by `jwtAuth()` with a secret. */
export const signerOf = (provider: AuthProvider | undefined): JwtProvider[typeof signing] | undefined =>
  (provider as Partial<JwtProvider> | undefined)?.[signing];

/**
 * Creates a provider for tokens signed with a secret (by `createToken()`, `agentserve token` or your own login), or with
 * a private key, of which it gets the public key.
 */
export function jwtAuth(options: JwtAuthOptions): AuthProvider {
  checkJwtOptions(options);
  const { secret, publicKey, mapUser, verifyOptions = {}, ...access } = options;
  const { audience, issuer, requireExpiry = publicKey !== undefined } = verifyOptions;
  const known = new VerifiedTokens({ mapUser }, ({ id, sub }) => id ?? sub);

  function create(key: KeyObject, allowed: readonly string[]): AuthProvider {
    const requiredClaims = requireExpiry ? ["exp"] : [];
    const rules = {
      algorithms: [...allowed],
      requiredClaims,
      ...(audience && { audience }),
      ...(issuer && { issuer }),
    };
    async function verify(token: string): Promise<object> {
      const { payload } = await jwtVerify(token, key, rules).catch((error: unknown) => {
        throw toReason(error);
      });
      return known.toUser(known.add(token, payload, key));
    }
    return {
      ...access,
      type: "jwt",
      verifyToken(token) {
        const verified = known.find(token, key, Date.now());
        return verified ? known.toUser(verified) : verify(token);
      },
    };
  }

  if (publicKey !== undefined) {
    const { key, allowed } = toPublicKey(publicKey, verifyOptions.algorithms);
    return create(key, allowed);
  }
  const key = toKey(secret, "jwtAuth()");
  // Checked above: beside a secret, each algorithm is one of `algorithms`.
  const allowed = (verifyOptions.algorithms as readonly JwtAlgorithm[] | undefined) ?? ["HS256"];
  const [algorithm = "HS256"] = allowed;
  const provider: JwtProvider = {
    ...create(key, allowed),
    [signing]: {
      isWeak: Buffer.byteLength(secret) < 32,
      defaults: { algorithm, audience, issuer },
      sign: (payload, asked) => sign(payload, key, asked),
    },
  };
  return provider;
}

function toPublicKey(
  pem: string,
  asked: readonly string[] | undefined,
): { key: KeyObject; allowed: readonly string[] } {
  try {
    const { key, fitting } = readPublicKey(pem);
    const other = asked?.find((name) => !fitting.some((one) => one === name));
    if (other === undefined) return { key, allowed: asked ?? fitting.slice(0, 1) };
    throw new TypeError(`expected a key for ${other}, found one for ${fitting.join(", ")}`);
  } catch (error) {
    throw new TypeError(`jwtAuth(): publicKey: ${(error as Error).message}`, { cause: error });
  }
}

/** The options of `createToken()`. */
export interface CreateTokenOptions {
  /** The lifetime of the token: `"30m"`, `"12h"`, `"7d"`. @default no expiry */
  expiresIn?: string | undefined;
  /** The audience (`aud`). @default none */
  audience?: string | undefined;
  /** The issuer (`iss`). @default none */
  issuer?: string | undefined;
  /** The signature algorithm. @default "HS256" */
  algorithm?: JwtAlgorithm | undefined;
}

/** Signs a token that `jwtAuth({ secret })` accepts. `sub` in the payload is the id of the user. */
export async function createToken(
  payload: JWTPayload,
  secret: string,
  options: CreateTokenOptions = {},
): Promise<string> {
  return sign(payload, toKey(secret, "createToken()"), options);
}

async function sign(payload: JWTPayload, key: KeyObject, options: CreateTokenOptions): Promise<string> {
  const { expiresIn, audience, issuer, algorithm = "HS256" } = options;
  const lifetime = expiresIn === undefined ? undefined : fromDuration(expiresIn);
  if (!isObject(payload)) throw mistake("createToken(payload)", "an object", payload);
  if (expiresIn !== undefined && !lifetime) throw mistake("createToken({ expiresIn })", durationRule, expiresIn);
  if (!algorithms.includes(algorithm))
    throw mistake("createToken({ algorithm })", `one of ${algorithms.join(", ")}`, algorithm);
  const issuedAt = Math.floor(Date.now() / 1_000);
  const token = new SignJWT(payload).setProtectedHeader({ alg: algorithm, typ: "JWT" }).setIssuedAt(issuedAt);
  if (lifetime) token.setExpirationTime(issuedAt + Math.ceil(lifetime / 1_000));
  if (audience !== undefined) token.setAudience(audience);
  if (issuer !== undefined) token.setIssuer(issuer);
  return token.sign(key);
}

function toKey(secret: string, where: string): KeyObject {
  const isKey = isPem(secret);
  if (typeof secret !== "string" || secret === "" || isKey) {
    // The value is not shown, because it may be a secret. A public key is refused: anyone who has it could sign tokens.
    const found = isKey ? "a PEM key: pass a public key as publicKey" : kindOf(secret);
    throw new TypeError(`${where}: secret: expected a non-empty string that only token issuers know, found ${found}`);
  }
  return createSecretKey(Buffer.from(secret));
}

const mistake = (where: string, expected: string, found: unknown): TypeError =>
  new TypeError(`${where}: expected ${expected}, found ${describe(found)}`);
