import { Agent as HttpAgent, request as requestHttp } from "node:http";
import { Agent as HttpsAgent, request as requestHttps } from "node:https";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { OtlpSettings } from "./settings.ts";

/** The response to a batch. */
interface PostResult {
  readonly status: number;
  /** The `Retry-After` header. */
  readonly retryAfter: string | undefined;
}
/** Sends a batch. Rejects with a short reason, which contains no URL and no header. */
export type Post = (body: Buffer, timeoutMs: number) => Promise<PostResult>;

/** Creates a client for one URL. It does not keep the process alive, and uses no global `fetch`, which hosts replace. */
export function createPost({ url, headers, protocol, isCompressed }: OtlpSettings): Post & { close(): void } {
  const isTls = url.protocol === "https:";
  const agent = new (isTls ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1 });
  const request = isTls ? requestHttps : requestHttp;
  const fixed: Record<string, string> = { ...headers, "content-type": mediaTypes[protocol] };
  if (isCompressed) fixed["content-encoding"] = "gzip";

  async function post(body: Buffer, timeoutMs: number): Promise<PostResult> {
    const bytes = isCompressed ? await compress(body) : body;
    return new Promise((resolve, reject) => {
      const sent = request(url, { method: "POST", agent, headers: { ...fixed, "content-length": bytes.length } });
      const timer = setTimeout(() => sent.destroy(new Error("no response in time")), timeoutMs).unref();
      sent.on("socket", (socket) => socket.unref());
      sent.on("error", (error: NodeJS.ErrnoException) => reject(new Error(error.code ?? error.message)));
      sent.on("close", () => clearTimeout(timer));
      sent.on("response", (response) => {
        response.resume(); // the connection can be used again once the body is read
        resolve({ status: response.statusCode ?? 0, retryAfter: response.headers["retry-after"] });
      });
      sent.end(bytes);
    });
  }
  return Object.assign(post, { close: () => agent.destroy() });
}

const mediaTypes = { "http/protobuf": "application/x-protobuf", "http/json": "application/json" };
const compress = promisify(gzip);
