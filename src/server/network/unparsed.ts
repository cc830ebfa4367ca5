import type { Server } from "node:http";
import type { Duplex } from "node:stream";
import { ServeError } from "../../core/error.ts";
import { requestIdHeader } from "../../http/request-id.ts";
import { toErrorEnvelope, type Envelope } from "../../http/envelope.ts";
import { refuse } from "../../http/refuse.ts";
import { send } from "./listener.ts";

/** Responds in our envelope to requests that Node would answer itself, or drop, before it calls a listener. */
export function answerUnparsed(server: Server): void {
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // A client would read a second response as part of the first one.
    if ((socket as Carrier)._httpMessage?.headersSent) return void socket.destroy();
    refuse(socket, toEnvelope(clientErrors[error.code ?? ""] ?? new ServeError(400, "Bad request")));
  });
  server.on("connect", (_, socket) => refuse(socket, toEnvelope(new ServeError(405, "Method not allowed"))));
  server.on("checkExpectation", (_, res) => {
    send(res, toEnvelope(new ServeError(417, "Expectation failed")));
  });
  // Set as properties, because listhen creates its own server without these options. Our listener refuses a request
  // without a Host, and ignores the wish of a request to upgrade to HTTP/2. Node 22 has no shouldUpgradeCallback:
  // there, such a request gets a 400.
  Object.assign(server, {
    requireHostHeader: false,
    shouldUpgradeCallback: (req: { headers: { upgrade?: string } }) =>
      req.headers.upgrade?.toLowerCase() === "websocket",
  });
}

/** `_httpMessage` is Node's internal name for the response of a socket. Its default "clientError" handler reads it. */
type Carrier = Duplex & { _httpMessage?: { headersSent: boolean } };

const toEnvelope = (error: ServeError): Envelope => toErrorEnvelope(error, [requestIdHeader()], () => {});

const clientErrors: Record<string, ServeError> = {
  HPE_HEADER_OVERFLOW: new ServeError(431, "Request header fields too large"),
  ERR_HTTP_REQUEST_TIMEOUT: new ServeError(408, "Request timeout"),
};
