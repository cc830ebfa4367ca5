import type { JSONWebKeySet, JWK } from "jose";
import { type Clock, systemClock, within } from "../../core/clock.ts";
import { isObject } from "../../core/json.ts";
import { isLoopback } from "../../core/loopback.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { fetchJson } from "./fetch-json.ts";

/** The time to read the keys, in milliseconds. Less than a provider has for a token, so that a caller gets the 503. */
const readMs = 4_000;
/** Max keys of an issuer. A token without a `kid` may be checked with each of them. */
const maxKeys = 100;

/** Checks the URL of an issuer. Throws an error that completes `oidcAuth(): issuer: …`. */
export function checkIssuer(issuer: string): void {
  const url = URL.parse(issuer);
  if (!url || !isSecure(url))
    throw new TypeError("expected an https URL, or an http one of this machine, such as https://login.example.com");
  if (url.username || url.password || url.search || url.hash || /[?#]/.test(issuer))
    throw new TypeError("expected a URL without credentials, query and fragment");
}

/** An OpenID Connect issuer. Each read has a limit of bytes and time. Nothing is read before the first call. */
export class Issuer {
  readonly #name: string;
  readonly #clock: Clock;
  #keysUrl: URL | undefined;

  constructor(name: string, clock: Clock = systemClock) {
    this.#name = name;
    this.#clock = clock;
  }

  /** Reads the keys. With `isKnown`, the address of the last read is used. After a failure it is looked up again. */
  async readKeys({ isKnown }: { isKnown: boolean }): Promise<JSONWebKeySet> {
    const controller = new AbortController();
    const late = (): never => {
      throw new Error(`${this.#name} has not answered within ${readMs} ms`);
    };
    const reading = this.#read(isKnown ? this.#keysUrl : undefined, controller.signal);
    // Not left to the signal alone: the answer must not depend on when `fetch` notices it.
    return within(readMs, reading, { onLate: late, clock: this.#clock, keepAlive: false })
      .catch((error: unknown) => {
        this.#keysUrl = undefined;
        throw error;
      })
      .finally(() => controller.abort());
  }

  async #read(known: URL | undefined, signal: AbortSignal): Promise<JSONWebKeySet> {
    const url = known ?? (await this.#discover(signal));
    const keys = toKeys(await fetchJson(url, signal), url);
    this.#keysUrl = url;
    return keys;
  }

  /** Returns the address of the keys, from the discovery document. It must name exactly this issuer. */
  async #discover(signal: AbortSignal): Promise<URL> {
    const url = new URL(`${this.#name.replace(/\/$/, "")}/.well-known/openid-configuration`);
    const { issuer, jwks_uri: address } = await fetchJson(url, signal);
    if (issuer !== this.#name) {
      const found = toVisible(JSON.stringify(issuer) ?? "none", { max: 200 });
      throw new Error(`GET ${url.href}: expected the issuer ${JSON.stringify(this.#name)}, found ${found}`);
    }
    const keysUrl = typeof address === "string" ? URL.parse(address) : null;
    // Only an issuer without encryption, which is on this machine, may have its keys at such an address.
    if (!keysUrl || !isSecure(keysUrl) || (keysUrl.protocol === "http:" && url.protocol !== "http:"))
      throw new Error(`GET ${url.href}: expected an https URL as jwks_uri`);
    return keysUrl;
  }
}

function isSecure({ protocol, hostname }: URL): boolean {
  if (protocol === "https:") return true;
  return protocol === "http:" && isLoopback(hostname.replace(/^\[(.*)\]$/, "$1"));
}

/** Returns the public keys of a set. Symmetric keys, and keys whose private part was published, are left out. */
function toKeys({ keys }: Record<string, unknown>, url: URL): JSONWebKeySet {
  if (!Array.isArray(keys) || !keys.every(isObject)) throw new Error(`GET ${url.href}: expected a set of keys`);
  if (keys.length > maxKeys) throw new Error(`GET ${url.href}: expected at most ${maxKeys} keys, found ${keys.length}`);
  return { keys: keys.filter(isPublic).map(toPlainKey) };
}

const isPublic = ({ kty, d, k }: Record<string, unknown>): boolean =>
  ["RSA", "EC", "OKP"].includes(kty as string) && d === undefined && k === undefined;

/** The fields of a key that are used. Certificates and their addresses never are. */
const fields = ["kty", "kid", "alg", "use", "key_ops", "crv", "n", "e", "x", "y"];
const toPlainKey = (key: Record<string, unknown>): JWK =>
  Object.fromEntries(fields.filter((name) => key[name] !== undefined).map((name) => [name, key[name]])) as JWK; // checked by jose
