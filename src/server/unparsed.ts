import type { Server } from "node:http";
import type { Duplex } from "node:stream";
import { ServeError } from "../core/error.ts";
import { toErrorEnvelope, type Envelope } from "../http/envelope.ts";
import { refuse } from "../http/refuse.ts";
import { send } from "./listener.ts";

/** What Node would answer by itself, in a shape of its own or not at all, before any listener is asked. */
export function answerUnparsed(server: Server): void {
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // A response that has begun cannot be followed by another one: the client would read it as part of the first.
    if ((socket as Carrier)._httpMessage?.headersSent) return void socket.destroy();
    refuse(socket, toEnvelope(clientErrors[error.code ?? ""] ?? new ServeError(400, "Bad request")));
  });
  server.on("connect", (_, socket) => refuse(socket, toEnvelope(new ServeError(405, "Method not allowed"))));
  server.on("checkExpectation", (_, res) => {
    send(res, toEnvelope(new ServeError(417, "Expectation failed")));
  });
  // Properties of the server, not only options: listhen makes its own. The listener itself refuses what has no Host, and
  // answers as usual to who would rather speak HTTP/2. Node 22 has no shouldUpgradeCallback; there that is a 400.
  Object.assign(server, {
    requireHostHeader: false,
    shouldUpgradeCallback: (req: { headers: { upgrade?: string } }) =>
      req.headers.upgrade?.toLowerCase() === "websocket",
  });
}

/** Node's own name for the response that a socket carries; its default handler of "clientError" looks at it, too. */
type Carrier = Duplex & { _httpMessage?: { headersSent: boolean } };

const toEnvelope = (error: ServeError): Envelope => toErrorEnvelope(error, [], () => {});

const clientErrors: Record<string, ServeError> = {
  HPE_HEADER_OVERFLOW: new ServeError(431, "Request header fields too large"),
  ERR_HTTP_REQUEST_TIMEOUT: new ServeError(408, "Request timeout"),
};
