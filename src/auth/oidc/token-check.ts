import {
  decodeProtectedHeader,
  errors,
  jwtVerify,
  UnsecuredJWT,
  type JWTPayload,
  type JWTVerifyOptions,
  type ProtectedHeaderParameters,
} from "jose";
import type { Clock } from "../../core/clock.ts";
import { toReason } from "../reasons.ts";
import type { KeySet } from "./keys.ts";

/** The checks of a token, in their order. Each throws the reason of a refusal. */
export interface TokenCheck {
  /** Checks the form and the header of a token, without any key. */
  form(token: string): void;
  /** Checks the claims, without the signature: the result can only be a refusal. */
  claims(token: string): void;
  /** Returns the payload. Returns undefined if the set has no key for the token. */
  signature(token: string, keys: KeySet): Promise<JWTPayload | undefined>;
}

export interface TokenRules {
  readonly issuer: string;
  readonly audience: readonly string[];
  readonly algorithms: readonly string[];
  readonly clock: Clock;
}

export function createTokenCheck({ issuer, audience, algorithms, clock }: TokenRules): TokenCheck {
  const toRules = (): JWTVerifyOptions => ({
    issuer,
    audience: [...audience],
    algorithms: [...algorithms],
    requiredClaims: ["exp"],
    currentDate: new Date(clock.now()),
  });

  /** Verifies with the key of the token. A token without a `kid` may have several: then with one after the other. */
  async function verify(token: string, keys: KeySet): Promise<JWTPayload> {
    const rules = toRules();
    try {
      return (await jwtVerify(token, keys.find, rules)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      for await (const key of error) {
        const verified = await jwtVerify(token, key, rules).catch((reason: unknown) => {
          if (!(reason instanceof errors.JWSSignatureVerificationFailed)) throw reason;
        });
        if (verified) return verified.payload;
      }
      throw new errors.JWSSignatureVerificationFailed();
    }
  }

  return {
    form(token) {
      const header = readHeader(token);
      if (!header) throw new Error("malformed");
      const { alg, kid, typ } = header;
      if (typeof alg !== "string" || !algorithms.includes(alg)) throw new Error("algorithm not allowed");
      if (kid !== undefined && typeof kid !== "string") throw new Error("malformed");
      // Issuers sign other things with the same keys, such as notices of a logout.
      if (typ !== undefined && !(typeof typ === "string" && types.test(typ))) throw new Error("not an access token");
    },
    claims(token) {
      const [, payload = ""] = token.split(".");
      try {
        UnsecuredJWT.decode(`${unsecured}.${payload}.`, toRules());
      } catch (error) {
        throw toReason(error);
      }
    },
    async signature(token, keys) {
      try {
        return await verify(token, keys);
      } catch (error) {
        if (error instanceof errors.JWKSNoMatchingKey) return undefined;
        // Without a `kid`, another key than before is not known by its name.
        const isWrong = error instanceof errors.JWSSignatureVerificationFailed;
        if (isWrong && readHeader(token)?.kid === undefined) return undefined;
        throw toReason(error);
      }
    },
  };
}

function readHeader(token: string): ProtectedHeaderParameters | undefined {
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) return undefined;
  try {
    return decodeProtectedHeader(token);
  } catch {
    return undefined;
  }
}

const types = /^(?:application\/)?(?:at\+)?jwt$/i;
const unsecured = Buffer.from('{"alg":"none"}').toString("base64url");
