import { createSecretKey, type KeyObject } from "node:crypto";
import { errors, jwtVerify, SignJWT, type JWTPayload } from "jose";
import { durationRule, fromDuration } from "../core/duration.ts";
import { describe } from "../core/explain.ts";
import { isObject } from "../core/json.ts";
import { algorithms, checkJwtOptions, kindOf } from "./options.ts";
import type { AccessOptions, AuthProvider } from "./provider.ts";
import { toUser } from "./user.ts";

export type { JWTPayload };
export type JwtAlgorithm = (typeof algorithms)[number];
const signing: unique symbol = Symbol("signing");

export interface JwtAuthOptions extends AccessOptions {
  /** The secret that tokens are signed with: 32 bytes or more, from a random source. */
  secret: string;
  /** The user of a token, for every request. @default the payload, with `id` = `id ?? sub` */
  mapUser?: ((payload: JWTPayload) => object | Promise<object>) | undefined;
  verifyOptions?:
    | {
        /** @default ["HS256"] */
        algorithms?: readonly JwtAlgorithm[] | undefined;
        audience?: string | undefined;
        issuer?: string | undefined;
      }
    | undefined;
  /** Tokens that are remembered once verified, until they expire. @default 1000 */
  cacheSize?: number | undefined;
}

/** What the command line asks of a provider that `jwtAuth` made. The secret itself stays in here. */
export interface JwtProvider extends AuthProvider {
  readonly [signing]: {
    /** Whether the secret is so short that it can be guessed. */
    readonly isWeak: boolean;
    readonly defaults: Required<Pick<CreateTokenOptions, "algorithm">> & CreateTokenOptions;
    sign(payload: JWTPayload, options: CreateTokenOptions): Promise<string>;
  };
}

/** How to sign for a provider; undefined when it is not one of `jwtAuth`'s. */
export const signerOf = (provider: AuthProvider | undefined): JwtProvider[typeof signing] | undefined =>
  (provider as Partial<JwtProvider> | undefined)?.[signing];

/** Believes tokens that were signed with a secret: those of `createToken()`, of `agentserve token`, of your login. */
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
    // The oldest leaves: a flood of distinct tokens costs memory only up to here.
    if (known.size > cacheSize) known.delete(known.keys().next().value!);
    return verified;
  }
  // A payload of its own for each request: mapUser may change it.
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
  /** As JSON. */
  readonly payload: string;
  readonly user: object;
  /** In milliseconds since 1970. */
  readonly until: number;
}
const toMs = (seconds: number | undefined): number => (seconds === undefined ? Infinity : seconds * 1_000);
const toDefaultUser = ({ id, ...payload }: JWTPayload): object => toUser({ ...payload, id: id ?? payload.sub });

export interface CreateTokenOptions {
  /** How long it is good for: `"30m"`, `"12h"`, `"7d"`. @default for ever */
  expiresIn?: string | undefined;
  audience?: string | undefined;
  issuer?: string | undefined;
  /** @default "HS256" */
  algorithm?: JwtAlgorithm | undefined;
}

/** A token for a caller, as `jwtAuth({ secret })` believes it. `sub` of the payload is the user's id. */
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
  if (!algorithms.includes(algorithm)) throw mistake("createToken({ algorithm })", algorithms.join(", "), algorithm);
  const issuedAt = Math.floor(Date.now() / 1_000);
  const token = new SignJWT(payload).setProtectedHeader({ alg: algorithm, typ: "JWT" }).setIssuedAt(issuedAt);
  if (lifetime) token.setExpirationTime(issuedAt + Math.ceil(lifetime / 1_000));
  if (audience !== undefined) token.setAudience(audience);
  if (issuer !== undefined) token.setIssuer(issuer);
  return token.sign(key);
}

/** Words of our own: what jose says may hold what stands in the token. */
function toReason(error: unknown): unknown {
  if (error instanceof errors.JWTExpired || !(error instanceof errors.JOSEError)) return error;
  if (error instanceof errors.JWSSignatureVerificationFailed) return new Error("signature verification failed");
  if (error instanceof errors.JOSEAlgNotAllowed) return new Error("its algorithm is not allowed");
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, reason } = error;
    if (claim === "nbf" && reason === "check_failed") return new Error("not yet valid");
    return new Error(`its claim ${claim} is ${reason === "missing" ? "missing" : "not the expected one"}`);
  }
  return new Error("malformed");
}

function toKey(secret: string, where: string): KeyObject {
  const isKey = typeof secret === "string" && secret.trimStart().startsWith("-----BEGIN ");
  if (typeof secret !== "string" || secret === "" || isKey) {
    // What was found is not shown: it may be a secret all the same. With a public key for one, whoever has that could sign.
    const found = isKey ? "a PEM key" : kindOf(secret);
    throw new TypeError(`${where}: secret: expected a text that only those who sign tokens know, found ${found}`);
  }
  return createSecretKey(Buffer.from(secret));
}

const mistake = (where: string, expected: string, found: unknown): TypeError =>
  new TypeError(`${where}: expected ${expected}, found ${describe(found)}`);
