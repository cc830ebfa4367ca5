import type { JWTPayload } from "jose";
import { toUser } from "./user.ts";

/** A token whose signature and claims have been verified. */
export interface VerifiedToken {
  /** Serialized JSON. */
  readonly payload: string;
  readonly user: object;
  /** The expiry, in milliseconds since 1970. */
  readonly until: number;
  /** The keys by which it was verified. It is valid only while they are in use. */
  readonly keys: unknown;
}

/** The options that `jwtAuth()` and `oidcAuth()` share. */
export interface VerifiedTokenOptions {
  /**
   * Maps a payload to its user. Called for every request.
   * @default the payload, with `id` = `id ?? sub`; in `oidcAuth()` with `id` = `sub`
   */
  mapUser?: ((payload: JWTPayload) => object | Promise<object>) | undefined;
}

/** Max verified tokens to cache. A cached token is valid until it expires. */
const maxKnown = 1_000;

/** The verified tokens: their signatures need not be checked with each request. */
export class VerifiedTokens {
  readonly #known = new Map<string, VerifiedToken>();
  readonly #mapUser: VerifiedTokenOptions["mapUser"];
  readonly #idOf: IdOf;

  constructor({ mapUser }: VerifiedTokenOptions, idOf: IdOf) {
    this.#mapUser = mapUser;
    this.#idOf = idOf;
  }

  /** Returns a token that was verified by these keys and has not expired. */
  find(token: string, keys: unknown, now: number): VerifiedToken | undefined {
    const verified = this.#known.get(token);
    if (verified && verified.keys === keys && now < verified.until) return verified;
    this.#known.delete(token);
    return undefined;
  }

  add(token: string, payload: JWTPayload, keys: unknown): VerifiedToken {
    const until = payload.exp === undefined ? Infinity : payload.exp * 1_000;
    const verified = {
      payload: JSON.stringify(payload),
      user: toUser({ ...payload, id: this.#idOf(payload) }),
      until,
      keys,
    };
    this.#known.set(token, verified);
    // The oldest entry is evicted, so a flood of distinct tokens cannot fill the memory.
    if (this.#known.size > maxKnown) this.#known.delete(this.#known.keys().next().value!);
    return verified;
  }

  /** Returns the user of a token. Each request gets a fresh payload: `mapUser` may change it. */
  toUser({ payload, user }: VerifiedToken): object | Promise<object> {
    return this.#mapUser ? this.#mapUser(JSON.parse(payload) as JWTPayload) : user;
  }
}

/** Returns the id of the default user. */
type IdOf = (payload: JWTPayload) => unknown;
