import { toWebResponse, type Answer } from "../../http/envelope.ts";
import { limitRequestBody } from "srvx/body-limit";

/**
 * Limits the body of a request once it is touched. `limitRequestBody` alone would cancel a body over the limit at once, and
 * the route of the request may have a higher limit.
 */
export function limitLater(request: Request, bytes: number): Request {
  let limited: Request | undefined;
  return new Proxy(request, {
    get(target, key) {
      const from = bodyKeys.has(key) ? (limited ??= limitRequestBody(target, bytes)) : target;
      const value: unknown = Reflect.get(from, key, from);
      return typeof value === "function" ? (value.bind(from) as unknown) : value;
    },
  });
}

const bodyKeys: ReadonlySet<string | symbol> = new Set([
  "body",
  "bodyUsed",
  "arrayBuffer",
  "blob",
  "bytes",
  "clone",
  "formData",
  "json",
  "text",
  "_request",
]);

/** Completes a response for the caller of `fetch`: a HEAD has no body, and a stream holds the snapshot until it ends. */
export async function toHostResponse(answer: Answer, method: string, release: () => void): Promise<Response> {
  const response = toWebResponse(answer);
  if (method === "HEAD") await response.body?.cancel();
  const streams = response.headers.get("content-type")?.startsWith("text/event-stream");
  if (method === "HEAD" || !streams || !response.body) {
    release();
    return method === "HEAD" ? new Response(null, response) : response;
  }
  // TypeScript's Transformer type does not have `cancel` yet.
  const end = new TransformStream({ flush: release, cancel: release } as Transformer);
  return new Response(response.body.pipeThrough(end), response);
}
