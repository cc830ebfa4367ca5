import { defineSocket, toMessage, type SocketRoute } from "./socket.ts";

/** The route `/ws`: a connection test. */
export const echoSocket: SocketRoute = defineSocket({
  path: "/ws",
  summary: "Connection test: echoes every message",
  description: "A WebSocket. JSON is echoed as data, anything else as text.",
  connect(peer) {
    const data = { message: "Connected to agentserve", timestamp: new Date().toISOString() };
    peer.send(toMessage("CONNECTION_TEST", data));
    return { message: (text) => void peer.send(toEcho(text)) };
  },
});

/** Returns JSON as parsed data. Anything that is not JSON, or too deep to serialize again, is returned as text. */
function toEcho(text: string): string {
  try {
    return toMessage("ECHO", JSON.parse(text));
  } catch {
    return toMessage("ECHO", text);
  }
}
