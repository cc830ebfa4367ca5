import { toWebResponse, type Answer } from "../../http/envelope.ts";

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
