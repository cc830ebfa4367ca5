import type { IncomingMessage } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { badRequest, clientLeft, ServeError } from "../core/error.ts";
import { type Reservation, toWeight } from "../core/byte-budget.ts";
import { findInfinity, isMoreThanStrings, isTextDeeper } from "../core/json.ts";
import { toProblem } from "../core/schema.ts";

export interface BodyLimits {
  readonly bodyBytes: number;
  readonly chatBodyBytes: number;
  readonly jsonDepth: number;
}

/**
 * Reads the JSON body. An empty body counts as `{}`. Its size is already limited by the listener or by `fetch`. It is
 * reserved before it is read or, if its length is not known, while it is read.
 */
export async function readJson(
  request: Request,
  limits: BodyLimits,
  reservation: Reservation,
  mayBeLarge = false,
): Promise<unknown> {
  const { jsonDepth, bodyBytes, chatBodyBytes } = limits;
  const type = request.headers.get("content-type");
  const max = mayBeLarge ? chatBodyBytes : bodyBytes;
  const text = await readText(request, max, reservation).catch((error: unknown) => {
    throw isClientAbort(error, request) ? clientLeft() : error;
  });
  if (text === "") return {};
  // Also rejects a body without a type: a browser sends one from any page without a preflight.
  if (type !== "application/json" && !jsonType.test(type ?? "")) {
    throw new ServeError(415, "Content-Type must be application/json");
  }
  const isLarge = text.length > bodyBytes;
  if (isLarge && isMoreThanStrings(text, bodyBytes)) {
    throw new ServeError(413, `Request body too large: more than ${bodyBytes} bytes beside its long strings`);
  }
  if (isLarge) await nextTurn(); // each look at a large body blocks the event loop
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw badRequest("Invalid JSON body", cause);
  }
  if (isLarge) await nextTurn();
  if (isTextDeeper(text, jsonDepth)) {
    throw badRequest(`Invalid JSON body: nested deeper than ${jsonDepth} levels`);
  }
  const infinite = findInfinity(value, text);
  if (infinite) throw badRequest(`Invalid JSON body: ${toProblem(infinite.join("."), numberRule)}`);
  return value;
}

const numberRule = "the number is out of range (±1.8e308)";

async function readText(request: Request, max: number, reservation: Reservation): Promise<string> {
  const declared = request.headers.get("content-length");
  const req = (request as NodeHosted).runtime?.node?.req;
  // A body over the limit is not read at all. In process, `text` refuses it.
  if (req && Number(declared) > max) throw new ServeError(413, "Request body too large");
  if (declared !== null) reservation.raise(Math.min(Number(declared), max));
  const text = await (declared !== null ? request.text() : readCounted(request, req, reservation));
  reservation.raise(await toWeightInTurns(text));
  return text;
}

/** Reads a body of unknown length, and reserves its bytes as they arrive. */
async function readCounted(
  request: Request,
  req: IncomingMessage | undefined,
  reservation: Reservation,
): Promise<string> {
  if (req) {
    const reading = request.text();
    return Promise.race([reading, refusalOf(req, reading, reservation)]);
  }
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    reservation.raise(length);
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/** Weighs a text in parts, one per turn of the event loop. */
async function toWeightInTurns(text: string): Promise<number> {
  let weight = toWeight(text.slice(0, weighedPerTurn));
  for (let at = weighedPerTurn; at < text.length; at += weighedPerTurn) {
    await nextTurn();
    weight += toWeight(text.slice(at, at + weighedPerTurn));
  }
  return weight;
}
const weighedPerTurn = 2_097_152;

/** A request of srvx. Undefined in process. */
type NodeHosted = Request & { readonly runtime?: { readonly node?: { readonly req?: IncomingMessage } } };

/** Counts the chunks of a body while it is read. Rejects once they are too many: the rest is read and discarded. */
function refusalOf(req: IncomingMessage, reading: Promise<unknown>, reservation: Reservation): Promise<never> {
  const refusal = Promise.withResolvers<never>();
  let length = 0;
  req.on("data", function count(chunk: Buffer): void {
    length += chunk.length;
    try {
      reservation.raise(length);
    } catch (error) {
      req.off("data", count);
      reading.catch(() => req.resume()); // srvx pauses a body that is too large
      refusal.reject(error);
    }
  });
  return refusal.promise;
}

const jsonType = /^application\/([\w.-]+\+)?json\s*(;|$)/i;

/** Returns true if the client closed its connection. That is not a server fault. */
export function isClientAbort(error: unknown, { signal }: Request): boolean {
  if (!signal.aborted) return false;
  // h3 wraps the error of Node.
  for (let one = error; one instanceof Error; one = one.cause) {
    if (one.name === "AbortError" || ("code" in one && one.code === "ECONNRESET")) return true;
  }
  return false;
}
