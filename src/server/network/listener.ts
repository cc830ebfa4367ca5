import type { IncomingMessage, ServerResponse } from "node:http";
import { NodeRequest, sendNodeResponse } from "srvx/node";
import { badRequest } from "../../core/error.ts";
import { requestIdHeader } from "../../http/request-id.ts";
import { DirectAnswer, Envelope, toErrorEnvelope, toWebResponse, type Answer } from "../../http/envelope.ts";
import type { App } from "../app.ts";
import type { Incoming } from "../requests/request-record.ts";

export type Listener = (req: IncomingMessage, res: ServerResponse) => void;

/**
 * Returns the current app as a Node request listener. A request holds its snapshot until its response is complete or does not
 * need it.
 */
export function toListener(current: () => App, report: (error: unknown) => void): Listener {
  return (req, res) => {
    const app = current();
    const releaseSnapshot = app.snapshot.hold("request");
    res.once("close", releaseSnapshot);
    const { bodyBytes } = app.snapshot.config.server.limits;
    const hasHost = req.headers.host !== undefined || req.httpVersion === "1.0";
    const toRequest = (bytes: number): Request => new NodeRequest({ req, res, maxRequestBodySize: bytes });
    const request = toRequest(bodyBytes);
    const incoming: Incoming = {
      request,
      // A touched body belongs to the request that reads it.
      withBodyLimit: (bytes) => (req.readableFlowing === null ? toRequest(bytes) : request),
      onEnded: (release) => void (res.closed ? release() : res.once("close", release)),
      release: releaseSnapshot,
    };
    void (hasHost ? app.answer(incoming) : Promise.resolve(withoutHost()))
      .then((answer) => {
        // srvx pauses a body that is too large. Discard the rest, or the connection's next request waits behind it.
        if (answer.status === 413) req.resume();
        if (!req.complete && !res.shouldKeepAlive && isShort(answer)) return sendEarly(req, res, answer);
        return send(res, answer);
      })
      .catch((error) => {
        // The Response cannot be written: it was used already, has an invalid status, or its body fails.
        const failed = toErrorEnvelope(error, [requestIdHeader()], report);
        if (res.headersSent) res.destroy();
        else send(res, failed);
      });
  };
}

const withoutHost = (): Envelope =>
  toErrorEnvelope(badRequest("Bad request: no Host header"), [requestIdHeader()], () => {});

/** Returns true for an answer that can be sent at once: not for a stream, and not for one without a body. */
const isShort = (answer: Answer): boolean =>
  answer.status >= 400 || (answer instanceof Envelope && answer.status !== 304);

/**
 * Sends an answer before its request has arrived as a whole, on a connection that closes afterwards. The rest of the body is
 * discarded before the connection is closed: closed with unread data, it would be reset. A client would get EPIPE in place of
 * the answer if it writes first, or may lose the end of it.
 */
async function sendEarly(req: IncomingMessage, res: ServerResponse, answer: Answer): Promise<void> {
  const { status } = answer;
  const isEnvelope = answer instanceof Envelope;
  const bytes = isEnvelope ? Buffer.from(answer.text) : new Uint8Array(await toWebResponse(answer).arrayBuffer());
  const raw = ["content-length", String(bytes.length)];
  for (const [name, value] of answer.headers) if (name !== "content-length") raw.push(name, value);
  res.writeHead(status, raw).write(bytes);
  discard(req, () => res.end());
}

/** Max bytes of a body that are discarded after its answer, and the time for it. Then the connection is cut. */
const maxDiscarded = 33_554_432;
const discardMs = 30_000;

function discard(req: IncomingMessage, onEnd: () => void): void {
  const cut = (): void => void req.socket.destroy();
  const timer = setTimeout(cut, discardMs).unref();
  let bytes = 0;
  req.on("data", (chunk: Uint8Array) => {
    if ((bytes += chunk.length) > maxDiscarded) cut();
  });
  req.once("close", () => {
    clearTimeout(timer);
    onEnd();
  });
  req.resume();
}

export function send(res: ServerResponse, answer: Answer): unknown {
  return answer instanceof DirectAnswer ? answer.send(res) : sendNodeResponse(res, answer);
}
