import type { IncomingMessage } from "node:http";
import { badRequest, clientLeft, ServeError } from "../core/error.ts";
import type { Reservation } from "../core/byte-budget.ts";
import { findInfinity, isTextDeeper } from "../core/json.ts";
import { toWeight } from "../core/heap-weight.ts";
import { toProblem } from "../core/schema.ts";
import { isClientAbort } from "./client-abort.ts";

export interface BodyLimits {
  readonly bodyBytes: number;
  readonly jsonDepth: number;
}

/**
 * Reads the JSON body. An empty body counts as `{}`. Its size is already limited by the listener or by `fetch`. It is
 * reserved before it is read or, if its length is not known, while it is read.
 */
export async function readJson(request: Request, limits: BodyLimits, reservation: Reservation): Promise<unknown> {
  const { jsonDepth } = limits;
  const type = request.headers.get("content-type");
  const text = await readText(request, limits, reservation).catch((error: unknown) => {
    throw isClientAbort(error, request) ? clientLeft() : error;
  });
  if (text === "") return {};
  // Also rejects a body without a type: a browser sends one from any page without a preflight.
  if (type !== "application/json" && !jsonType.test(type ?? "")) {
    throw new ServeError(415, "Content-Type must be application/json");
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw badRequest("Invalid JSON body", cause);
  }
  if (isTextDeeper(text, jsonDepth)) {
    throw badRequest(`Invalid JSON body: nested deeper than ${jsonDepth} levels`);
  }
  const infinite = findInfinity(value, text);
  if (infinite) throw badRequest(`Invalid JSON body: ${toProblem(infinite.join("."), numberRule)}`);
  return value;
}

const numberRule = "the number is out of range (±1.8e308)";

async function readText(request: Request, { bodyBytes }: BodyLimits, reservation: Reservation): Promise<string> {
  const declared = request.headers.get("content-length");
  // A body over the limit is not read at all.
  if (declared !== null) reservation.raise(Math.min(Number(declared), bodyBytes));
  const reading = request.text();
  const req = declared === null ? (request as NodeHosted).runtime?.node?.req : undefined;
  const text = await (req ? Promise.race([reading, refusalOf(req, reading, reservation)]) : reading);
  reservation.raise(toWeight(text));
  return text;
}

/** A request of srvx. Undefined in process. */
type NodeHosted = Request & { readonly runtime?: { readonly node?: { readonly req?: IncomingMessage } } };

/** Counts the chunks of a body while it is read. Rejects once they are too many. The rest is read and discarded. */
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
