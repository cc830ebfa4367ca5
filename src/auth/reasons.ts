import { errors } from "jose";

/** Replaces messages of jose, which may quote the content of the token. */
export function toReason(error: unknown): unknown {
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
