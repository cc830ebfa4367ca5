import type { H3Event } from "h3";
import { anonymous, type Identity } from "../../core/caller.ts";
import { isPreflight } from "../../http/cors.ts";
import { toErrorEnvelope, toWebResponse, type Answer, type HeaderPairs } from "../../http/envelope.ts";
import type { Match, Table } from "../../http/table.ts";
import type { BuiltInRoute } from "../built-in-routes.ts";
import { methodNotAllowed, type InnerHandler } from "../custom.ts";
import type { IdentifyRequest } from "./guard.ts";
import { isCrossOrigin } from "./origins.ts";
import type { RequestRecord } from "./request-record.ts";

/** The parts of an app that respond inside the host's middleware. */
export interface MiddlewareAnswerParts {
  readonly table: Table<BuiltInRoute>;
  identify(event: H3Event, request: IdentifyRequest): Promise<Identity>;
  allowLargeBody(event: H3Event): void;
  answerBuiltIn(event: H3Event, match: Match<BuiltInRoute>, identity: Identity): Promise<Answer>;
  askCustom(event: H3Event, identity: Identity, inner?: InnerHandler | undefined): Promise<Response>;
  readonly report: (error: unknown, requestId: string) => void;
}

/**
 * With `cors: false`, every response is created inside the host's middleware, so that it can set CORS headers on all of
 * them. For a refused caller, the refusal replaces the response of the middleware, and only its CORS headers are kept.
 * A preflight has no token and runs no route.
 */
export function createMiddlewareAnswer(
  parts: MiddlewareAnswerParts,
): (event: H3Event, record: RequestRecord) => Promise<Response> {
  const { table, identify, answerBuiltIn, askCustom, report } = parts;

  return async function answer(event, record) {
    const { req: request, url } = event;
    const isAsking = isPreflight(request);
    const method = isAsking ? request.headers.get("access-control-request-method")! : request.method;
    const match = table.find(method, url.pathname);
    if (!isAsking) record.route = match?.route;
    let identity: Identity = anonymous;
    let refusal: unknown;
    try {
      identity = await identify(event, { method, route: match?.route, requestId: record.requestId });
      if (isAsking) refusal = methodNotAllowed(table, url.pathname);
    } catch (error) {
      refusal = error;
    }
    if (refusal) return refuse(event, { record, identity, refusal, isAsking });
    if (match?.route.largeBody) parts.allowLargeBody(event);
    const run = async (found: Match<BuiltInRoute>) => toWebResponse(await answerBuiltIn(event, found, identity));
    return askCustom(event, identity, match && { isRefusal: false, run: () => run(match) });
  };

  async function refuse(event: H3Event, { record, identity, refusal, isAsking }: Refused): Promise<Response> {
    let isAnswered = true; // by the middleware itself, unless it calls run()
    async function run(): Promise<never> {
      isAnswered = false;
      throw refusal;
    }
    const response = await askCustom(event, identity, { isRefusal: true, run });
    const kept = [...response.headers].filter(isCrossOrigin);
    if (isAsking && isAnswered) return toPreflightAnswer(response, kept);
    void response.body?.cancel();
    return toErrorEnvelope(refusal, kept, (hidden) => report(hidden, record.requestId)).toResponse();
  }
}

interface Refused {
  readonly record: RequestRecord;
  readonly identity: Identity;
  readonly refusal: unknown;
  readonly isAsking: boolean;
}

/** Returns the response to a preflight. It has a body only if it is an error. */
function toPreflightAnswer({ status, body, headers }: Response, kept: HeaderPairs): Response {
  if (status < 400) void body?.cancel();
  if (status < 400) return new Response(null, { status, headers: kept });
  const type = headers.get("content-type");
  return new Response(body, { status, headers: type ? [...kept, ["content-type", type]] : kept });
}
