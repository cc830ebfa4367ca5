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

describeServer(
  "a WebSocket under a provider with its own extractToken",
  { config: { auth: proxied }, only: ["dev", "start"] },
  (server) => {
    it("a WebSocket under a provider with its own extractToken is refused if the token is in the query", async () => {
      await expect(server.socket("/ws?token=ada")).rejects.toMatchObject({ status: 401 });
    });

    it("a WebSocket under a provider with its own extractToken is refused if the token is in a subprotocol", async () => {
      await expect(server.socket("/ws", { protocols: ["bearer", "ada"] })).rejects.toMatchObject({ status: 401 });
    });

    it("a WebSocket under a provider with its own extractToken opens with the token that the extractor returns", async () => {
      const socket = await server.socket("/ws?token=eve", { headers: { "x-verified-user": "ada" } });
      expect(await socket.next()).toMatchObject({ type: "CONNECTION_TEST" });
      socket.close();
    });
  },
);
