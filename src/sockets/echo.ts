import { defineSocket, type SocketRoute } from "./socket.ts";

/** `/ws`: is a WebSocket to this server possible from where you are? */
export const echoSocket: SocketRoute = defineSocket({
  path: "/ws",
  summary: "Connection test: sends every message back",
  connect(peer) {
    const send = (type: string, data: unknown): void => {
      peer.send({ type, success: true, data });
    };
    send("CONNECTION_TEST", { message: "Connected to agentserve", timestamp: new Date().toISOString() });
    return { message: (text) => send("ECHO", parse(text)) };
  },
});

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
