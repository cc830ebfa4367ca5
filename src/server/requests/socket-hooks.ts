import type { Hooks } from "crossws";
import type { Identity } from "../../core/caller.ts";
import { ServeError } from "../../core/error.ts";
import { check, toRecord } from "../../http/route.ts";
import type { Connection, SocketRoute } from "../../sockets/socket.ts";

/**
 * Returns the crossws hooks of a built-in socket. An invalid query is answered by a message and a close frame: a
 * browser does not reveal why a handshake failed.
 */
export function toHooks(route: SocketRoute, search: URLSearchParams, identity: Identity): Partial<Hooks> {
  let connection: Connection | undefined;
  return {
    open(peer) {
      try {
        const query = route.query && check(route.query, toRecord(search), "query");
        connection = route.connect(peer, { query, identity });
      } catch (error) {
        if (!(error instanceof ServeError)) throw error;
        peer.send(JSON.stringify({ type: "ERROR", success: false, error: error.message }));
        peer.close(1008, "Invalid query");
      }
    },
    message: (_, message) => connection?.message?.(message.text()),
    drain: () => connection?.drain?.(),
    close: () => connection?.close?.(),
  };
}
