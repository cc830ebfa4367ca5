import { defineSocket, toMessage, type SocketRoute } from "./socket.ts";

/** `/ws`: is a WebSocket to this server possible from where you are? */
export const echoSocket: SocketRoute = defineSocket({
  path: "/ws",
  summary: "Connection test: sends every message back",
  connect(peer) {
    const data = { message: "Connected to agentserve", timestamp: new Date().toISOString() };
    peer.send(toMessage("CONNECTION_TEST", data));
    return { message: (text) => void peer.send(toEcho(text)) };
  },
});

/** JSON comes back parsed; what is none, or too deep to be written again, as the text that it was. */
function toEcho(text: string): string {
  try {
    return toMessage("ECHO", JSON.parse(text));
  } catch {
    return toMessage("ECHO", text);
  }
}
