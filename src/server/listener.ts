import type { IncomingMessage, ServerResponse } from "node:http";
import { NodeRequest, sendNodeResponse } from "srvx/node";
import { badRequest } from "../core/error.ts";
import { Envelope, toErrorEnvelope, type Answer } from "../http/envelope.ts";
import type { App } from "./app.ts";

export type Listener = (req: IncomingMessage, res: ServerResponse) => void;

/** The current app as a Node request listener, for either host. Each request holds its snapshot until its response is over. */
export function toListener(current: () => App, report: (error: unknown) => void): Listener {
  return (req, res) => {
    const app = current();
    res.once("close", app.snapshot.hold("request"));
    const { bodyBytes } = app.snapshot.config.server.limits;
    const hasHost = req.headers.host !== undefined || req.httpVersion === "1.0";
    const request = new NodeRequest({ req, res, maxRequestBodySize: bodyBytes });
    void (hasHost ? app.answer(request) : Promise.resolve(noHost))
      .then((answer) => {
        // srvx pauses what is too long, and the next request of this connection would wait behind it. Read on and forget.
        if (answer.status === 413) req.resume();
        return send(res, answer);
      })
      .catch((error) => {
        // A Response that cannot be written: used already, an impossible status, a body that breaks.
        const failed = toErrorEnvelope(error, [], report);
        if (res.headersSent) res.destroy();
        else send(res, failed);
      });
  };
}

const noHost = toErrorEnvelope(badRequest("Bad request: no Host header"), [], () => {});

export function send(res: ServerResponse, answer: Answer): unknown {
  if (!(answer instanceof Envelope)) return sendNodeResponse(res, answer);
  const { status, headers, text } = answer;
  const raw = ["content-length", String(Buffer.byteLength(text))];
  for (const [name, value] of headers) raw.push(name, value);
  // One end(text): write() and then end() are two chunks, and so a writev, per response.
  return res.writeHead(status, raw).end(text);
}
