import { systemClock, type Clock } from "../../core/clock.ts";
import { checkOidcOptions } from "../options.ts";
import type { AccessOptions, AuthProvider } from "../provider.ts";
import { publicKeyAlgorithms, type PublicKeyAlgorithm } from "../public-key.ts";
import { VerifiedTokens, type VerifiedTokenOptions } from "../verified-tokens.ts";
import { checkIssuer, Issuer } from "./issuer.ts";
import { IssuerKeys } from "./keys.ts";
import { createTokenCheck } from "./token-check.ts";

const ownIssuer: unique symbol = Symbol("issuer");

/** The options of `oidcAuth()`. */
export interface OidcAuthOptions extends AccessOptions, VerifiedTokenOptions {
  /** The URL of the issuer, exactly as the `iss` of its tokens. https, or http on this machine. */
  issuer: string;
  /** The required audience (`aud`), or several of which a token must have one. */
  audience: string | readonly string[];
  /** The allowed algorithms. @default RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA */
  algorithms?: readonly PublicKeyAlgorithm[] | undefined;
}

/** The issuer of a provider made by `oidcAuth()`, for the server and the command line. */
export interface ProviderIssuer {
  readonly name: string;
  readonly audience: readonly string[];
  readonly algorithms: readonly string[];
  /** Reads the keys now. Returns the number of keys. */
  countKeys(): Promise<number>;
  /** Sets the callback for failed key requests. It receives the reason. */
  onFault(report: (error: string) => void): void;
}

/** Returns the issuer of a provider, or undefined if the provider was not made by `oidcAuth()`. */
export const issuerOf = (provider: AuthProvider | undefined): ProviderIssuer | undefined =>
  (provider as { readonly [ownIssuer]?: ProviderIssuer } | undefined)?.[ownIssuer];

/**
 * Creates a provider for tokens of an OpenID Connect issuer, such as Auth0, Entra ID, Keycloak or Okta. The keys are found
 * by discovery. Nothing is read before the first token.
 */
export function oidcAuth(options: OidcAuthOptions): AuthProvider {
  return createOidcProvider(options, systemClock);
}

/** Creates the provider of `oidcAuth()` with a clock that tests can move. */
export function createOidcProvider(options: OidcAuthOptions, clock: Clock): AuthProvider {
  checkOidcOptions(options);
  const { issuer: name, audience: wanted, algorithms = publicKeyAlgorithms, mapUser, ...access } = options;
  try {
    checkIssuer(name);
  } catch (error) {
    throw new TypeError(`oidcAuth(): issuer: ${(error as Error).message}`, { cause: error });
  }
  const audience = [wanted].flat();
  const issuer = new Issuer(name, clock);
  // Only `sub` is unique and never changes at an issuer. A user may be able to edit other claims.
  const known = new VerifiedTokens({ mapUser }, ({ sub }) => sub);
  const check = createTokenCheck({ issuer: name, audience, algorithms, clock });
  let report: ((error: string) => void) | undefined;
  const keys = new IssuerKeys({
    read: (isLookUp) => issuer.readKeys({ isKnown: isLookUp }),
    report: (error) => report?.(`The keys of ${name} could not be read: ${error}`),
    clock,
  });

  async function verify(token: string): Promise<object> {
    check.form(token);
    const seen = keys.reads;
    // A token that would be refused anyway is not worth a read.
    if (!keys.fresh) check.claims(token);
    let set = await keys.current();
    // Ended by the limits of `lookUp`: it returns other keys only if the issuer has changed them.
    for (;;) {
      const payload = await check.signature(token, set);
      if (payload) return known.toUser(known.add(token, payload, set));
      check.claims(token);
      const next = await keys.lookUp(set, seen);
      if (!next) throw new Error("unknown key");
      set = next;
    }
  }

  const provider: AuthProvider & { readonly [ownIssuer]: ProviderIssuer } = {
    ...access,
    type: "oidc",
    verifyToken(token) {
      const set = keys.fresh;
      const verified = set && known.find(token, set, clock.now());
      return verified ? known.toUser(verified) : verify(token);
    },
    [ownIssuer]: {
      name,
      audience,
      algorithms,
      countKeys: async () => (await new Issuer(name, clock).readKeys({ isKnown: false })).keys.length,
      onFault: (next) => void (report = next),
    },
  };
  return provider;
}
