import { createHmac, timingSafeEqual } from "node:crypto";
import { ServeError } from "agentserve";

const secret = process.env.WEBHOOK_SECRET; // from .env, see .env.example
/** The age from which a request is refused: a recorded one cannot be sent again later. */
const mostSeconds = 5 * 60;

/**
 * Throws 401 unless the request is signed and new. The signature is the HMAC SHA-256 of the timestamp, a dot and the body,
 * in hex; the timestamp is in seconds since 1970. The bytes are checked as they came: JSON that is parsed and written
 * again may differ.
 */
export function checkSignature(body: Uint8Array, headers: Headers): void {
  if (!secret) throw new ServeError(503, "WEBHOOK_SECRET is not set");
  const timestamp = headers.get("x-timestamp") ?? "";
  const signature = Buffer.from(headers.get("x-signature") ?? "", "hex");
  const expected = createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest();
  // Both have the same length, or timingSafeEqual throws. It takes the same time for every wrong signature.
  const isRight = signature.length === expected.length && timingSafeEqual(signature, expected);
  if (!isRight) throw new ServeError(401, "Wrong signature");
  const isNew = Math.abs(Date.now() / 1_000 - Number(timestamp)) <= mostSeconds;
  if (!isNew) throw new ServeError(401, "The timestamp is too old, or in the future");
}
