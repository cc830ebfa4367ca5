import { createSecretKey, type KeyObject } from "node:crypto";
import { errors, jwtVerify, SignJWT, type JWTPayload } from "jose";
import { durationRule, fromDuration } from "../core/duration.ts";
import { describe } from "../core/explain.ts";
import { isObject } from "../core/json.ts";
import { algorithms, checkJwtOptions, kindOf } from "./options.ts";
import type { AccessOptions, AuthProvider } from "./provider.ts";
import { toUser } from "./user.ts";

export type { JWTPayload };
/** A signature algorithm of `jwtAuth()` and `createToken()`. */
export type JwtAlgorithm = (typeof algorithms)[number];
const signing: unique symbol = Symbol("signing");

/** The options of `jwtAuth()`. */
export interface JwtAuthOptions extends AccessOptions {
  /** The secret that signs the tokens: 32 or more random bytes. */
  secret: string;
  /** Maps a payload to its user. Called for every request. @default the payload, with `id` = `id ?? sub` */
  mapUser?: ((payload: JWTPayload) => object | Promise<object>) | undefined;
  /** Checks in addition to the signature and the expiry. */
  verifyOptions?:
    | {
        /** The allowed algorithms. @default ["HS256"] */
        algorithms?: readonly JwtAlgorithm[] | undefined;
        /** The required audience (`aud`). @default any */
        audience?: string | undefined;
        /** The required issuer (`iss`). @default any */
        issuer?: string | undefined;
      }
    | undefined;
  /** The number of verified tokens to cache. A cached token is valid until it expires. @default 1000 */
  cacheSize?: number | undefined;
}

/** A provider made by `jwtAuth()`, with a signer for the command line. The secret is not exposed. */
export interface JwtProvider extends AuthProvider {
  readonly [signing]: {
    /** True if the secret is short enough to be guessed. */
    readonly isWeak: boolean;
    readonly defaults: Required<Pick<CreateTokenOptions, "algorithm">> & CreateTokenOptions;
    sign(payload: JWTPayload, options: CreateTokenOptions): Promise<string>;
  };
}

/** Returns the signer of a provider, or undefined if the provider was not made by `jwtAuth()`. */
export const signerOf = (provider: AuthProvider | undefined): JwtProvider[typeof signing] | undefined =>
  (provider as Partial<JwtProvider> | undefined)?.[signing];

/** Creates a provider for tokens signed with a secret: by `createToken()`, `agentserve token` or your own login. */
export function jwtAuth(options: JwtAuthOptions): AuthProvider {
  checkJwtOptions(options);
  const { secret, mapUser, verifyOptions = {}, cacheSize = 1_000, ...access } = options;
  const { audience, issuer } = verifyOptions;
  const allowed = verifyOptions.algorithms ?? ["HS256"];
  const key = toKey(secret, "jwtAuth()");
  const known = new Map<string, VerifiedToken>();

  async function verify(token: string): Promise<VerifiedToken> {
    const rules = { algorithms: [...allowed], ...(audience && { audience }), ...(issuer && { issuer }) };
    const { payload } = await jwtVerify(token, key, rules).catch((error: unknown) => {
      throw toReason(error);
    });
    const verified = { payload: JSON.stringify(payload), user: toDefaultUser(payload), until: toMs(payload.exp) };
    if (cacheSize > 0) known.set(token, verified);
    // The oldest entry is evicted, so a flood of distinct tokens cannot fill the memory.
    if (known.size > cacheSize) known.delete(known.keys().next().value!);
    return verified;
  }
  // Each request gets a fresh payload: mapUser may change it.
  const toMapped = ({ payload, user }: VerifiedToken) => (mapUser ? mapUser(JSON.parse(payload) as JWTPayload) : user);

  const provider: JwtProvider = {
    ...access,
    type: "jwt",
    verifyToken(token) {
      const verified = known.get(token);
      if (verified && Date.now() < verified.until) return toMapped(verified);
      known.delete(token);
      return verify(token).then(toMapped);
    },
    [signing]: {
      isWeak: Buffer.byteLength(secret) < 32,
      defaults: { algorithm: allowed[0]!, audience, issuer },
      sign: (payload, asked) => sign(payload, key, asked),
    },
  };
  return provider;
}

interface VerifiedToken {
  /** Serialized JSON. */
  readonly payload: string;
  readonly user: object;
  /** The expiry, in milliseconds since 1970. */
  readonly until: number;
}
const toMs = (seconds: number | undefined): number => (seconds === undefined ? Infinity : seconds * 1_000);
const toDefaultUser = ({ id, ...payload }: JWTPayload): object => toUser({ ...payload, id: id ?? payload.sub });

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

/** Replaces messages of jose, which may quote the content of the token. */
function toReason(error: unknown): unknown {
  if (error instanceof errors.JWTExpired || !(error instanceof errors.JOSEError)) return error;
  if (error instanceof errors.JWSSignatureVerificationFailed) return new Error("signature verification failed");
  if (error instanceof errors.JOSEAlgNotAllowed) return new Error("algorithm not allowed");
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, reason } = error;
    if (claim === "nbf" && reason === "check_failed") return new Error("not yet valid");
    return new Error(`claim ${claim} ${reason === "missing" ? "is missing" : "has an unexpected value"}`);
  }
  return new Error("malformed");
}

function toKey(secret: string, where: string): KeyObject {
  const isKey = typeof secret === "string" && secret.trimStart().startsWith("-----BEGIN ");
  if (typeof secret !== "string" || secret === "" || isKey) {
    // The value is not shown, because it may be a secret. A public key is refused: anyone who has it could sign tokens.
    const found = isKey ? "a PEM key" : kindOf(secret);
    throw new TypeError(`${where}: secret: expected a non-empty string that only token issuers know, found ${found}`);
  }
  return createSecretKey(Buffer.from(secret));
}

const mistake = (where: string, expected: string, found: unknown): TypeError =>
  new TypeError(`${where}: expected ${expected}, found ${describe(found)}`);
