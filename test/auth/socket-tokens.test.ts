import { expect, it } from "vitest";
import type { AuthProvider } from "agentserve";
import { describeServer } from "../harness/server.ts";

/** Trusts a header that only the proxy in front of the server can set. */
const proxied: AuthProvider = {
  type: "proxy",
  webSockets: true,
  extractToken: ({ headers }) => headers.get("x-verified-user"),
  verifyToken: (id) => ({ id }),
};

describeServer("WebSockets and extractToken", { config: { auth: proxied }, only: ["dev", "start"] }, (server) => {
  it("refuses a WebSocket with its token in the query if the provider has an own extractToken", async () => {
    await expect(server.socket("/ws?token=ada")).rejects.toMatchObject({ status: 401 });
  });

  it("refuses a WebSocket with its token in a subprotocol if the provider has an own extractToken", async () => {
    await expect(server.socket("/ws", { protocols: ["bearer", "ada"] })).rejects.toMatchObject({ status: 401 });
  });

  it("opens a WebSocket with the token that extractToken returns", async () => {
    const socket = await server.socket("/ws?token=eve", { headers: { "x-verified-user": "ada" } });
    expect(await socket.next()).toMatchObject({ type: "CONNECTION_TEST" });
    socket.close();
  });
});
