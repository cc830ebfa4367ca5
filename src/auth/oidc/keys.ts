import { createLocalJWKSet, type JSONWebKeySet } from "jose";
import type { Clock } from "../../core/clock.ts";
import { busy, toErrorMessage } from "../../core/error.ts";

/** The age at which keys are read again. */
const freshMs = 600_000;
/** The age up to which they are used while the issuer is down. */
const usableMs = 3_600_000;
/** The time between two attempts after a failure, and between two reads for unknown keys. */
const pauseMs = 60_000;

/** The keys of one or several reads. Another set means that the keys have changed. */
export interface KeySet {
  readonly text: string;
  /** Finds the key of a token by `alg` and `kid`. See `IssuerKeys`. */
  readonly find: ReturnType<typeof createLocalJWKSet>;
}

export interface IssuerKeysOptions {
  /** Reads the keys: for an unknown key, or because of their age. */
  readonly read: (isLookUp: boolean) => Promise<JSONWebKeySet>;
  /** Gets the reason of each failed read. */
  readonly report: (error: string) => void;
  readonly clock: Clock;
}

/**
 * The last read keys of an issuer.
 *
 * K1. At most one read is in flight, and all requests share it.
 * K2. After a failed read, the next one begins a minute later at the earliest.
 * K3. Unknown keys cause at most one read a minute. Reads for other reasons do not count.
 * K4. Keys older than 10 minutes are read again before they are used, or while they are used if the last read failed.
 *     Keys older than an hour are never used.
 *
 * jose's `createRemoteJWKSet` does not have these rules: it reads a response of any size, and after a failure it asks
 * the issuer again with each request. Its `createLocalJWKSet` only uses the given keys: by its source, it reads `alg`
 * and `kid` of the header, but not `jku`, `x5u`, `x5c` and `jwk`. It refuses symmetric algorithms and private keys. A
 * key must have the type, curve, `use` and `key_ops` of the algorithm.
 */
export class IssuerKeys {
  readonly #read: IssuerKeysOptions["read"];
  readonly #report: IssuerKeysOptions["report"];
  readonly #clock: Clock;
  #begun = 0;
  /** The number of the last successful read. */
  #lastRead = 0;
  #set: KeySet | undefined;
  #readAt = -Infinity;
  #failedAt = -Infinity;
  #lookedUpAt = -Infinity;
  #isDown = false;
  #reading: Promise<void> | undefined;

  constructor({ read, report, clock }: IssuerKeysOptions) {
    this.#read = read;
    this.#report = report;
    this.#clock = clock;
  }

  /** The number of reads so far, with the one in flight. */
  get reads(): number {
    return this.#begun;
  }

  /** The keys, if they need not be read again. */
  get fresh(): KeySet | undefined {
    return this.#youngerThan(freshMs);
  }

  /** Returns keys to verify with. Throws a 503 if there are none. */
  async current(): Promise<KeySet> {
    if (this.fresh) return this.fresh;
    // While the issuer is down, a request does not wait for it as long as there are keys.
    const reading = this.#begin(false);
    if (!this.#isDown || !this.#youngerThan(usableMs)) await reading;
    const set = this.#youngerThan(usableMs);
    if (!set) throw this.#unavailable();
    return set;
  }

  /**
   * Returns other keys than `lacking`, which has no key for a token. Undefined if the issuer has no others. `seen` is
   * the value of `reads` when the token came. Throws a 503 if the issuer is down.
   */
  async lookUp(lacking: KeySet, seen: number): Promise<KeySet | undefined> {
    // The read in flight may be older than the issuer's new key, and it may fail.
    while (this.#reading) await this.#reading;
    if (this.#set !== lacking) return this.current();
    if (!this.#isDown && (this.#lastRead > seen || this.#since(this.#lookedUpAt) < pauseMs)) return undefined;
    await this.#begin(true);
    if (this.#isDown) throw this.#unavailable();
    return this.#set === lacking ? undefined : this.#set;
  }

  /** Begins a read, or joins the one in flight. Never rejects. Without effect during the pause after a failure. */
  #begin(isLookUp: boolean): Promise<void> | undefined {
    if (this.#reading || this.#since(this.#failedAt) < pauseMs) return this.#reading;
    const number = ++this.#begun;
    const begun = this.#clock.monotonic();
    if (isLookUp) this.#lookedUpAt = begun;
    const read = async (): Promise<void> => {
      try {
        const keys = await this.#read(isLookUp);
        const text = JSON.stringify(keys);
        if (text !== this.#set?.text) this.#set = { text, find: createLocalJWKSet(keys) };
        this.#readAt = begun;
        this.#lastRead = number;
        this.#isDown = false;
      } catch (error) {
        this.#failedAt = this.#clock.monotonic();
        this.#isDown = true;
        this.#report(toErrorMessage(error));
      } finally {
        this.#reading = undefined;
      }
    };
    this.#reading = read();
    return this.#reading;
  }

  #unavailable(): Error {
    const seconds = Math.ceil((pauseMs - this.#since(this.#failedAt)) / 1_000);
    return busy("The token issuer is unavailable", Math.max(1, seconds));
  }

  #youngerThan(ms: number): KeySet | undefined {
    return this.#since(this.#readAt) < ms ? this.#set : undefined;
  }

  #since(time: number): number {
    return this.#clock.monotonic() - time;
  }
}
