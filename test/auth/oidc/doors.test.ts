import { describe, expect, it, onTestFinished } from "vitest";
import { defineWorkflow, oidcAuth, type AuthProvider } from "agentserve";
import { startIssuer, troubles } from "./issuer.ts";
import { createWorld, serve } from "./world.ts";

const workflows = [defineWorkflow({ id: "quick" }).andThen({ id: "only", execute: () => 1 })];
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

describe.each(["dev", "start"] as const)("OIDC tokens (%s)", (target) => {
  it("opens a WebSocket with an OIDC token in the header, in the query or as a subprotocol", async () => {
    const { issuer, server } = await createWorld({ target, webSockets: true });
    const token = issuer.mint();
    for (const open of [
      () => server.socket("/ws", bearer(token)),
      () => server.socket(`/ws?token=${token}`),
      () => server.socket("/ws", { protocols: ["bearer", token] }),
    ]) {
      const socket = await open();
      expect(await socket.next()).toMatchObject({ type: "CONNECTION_TEST" });
      socket.close();
    }
    await expect(server.socket("/ws")).rejects.toMatchObject({ status: 401 });
    await expect(server.socket("/ws", bearer(issuer.mint({ exp: 1 })))).rejects.toMatchObject({ status: 401 });
  });

  it("answers 503 to a WebSocket and a stream with an OIDC token while the issuer is down", async () => {
    const { issuer, server } = await createWorld({ target, webSockets: true, config: { workflows } });
    issuer.answer = troubles["closes the connection"];
    const token = issuer.mint();
    await expect(server.socket(`/ws?token=${token}`)).rejects.toMatchObject({
      status: 503,
      body: expect.stringContaining("The token issuer is unavailable"),
    });
    await expect(server.socket("/ws")).rejects.toMatchObject({ status: 401 });
    const stream = await server.post("/workflows/quick/stream", { input: {} }, bearer(token));
    expect([stream.status, stream.headers.get("retry-after")]).toEqual([503, "60"]);
    expect(stream.body).toEqual({ success: false, error: "The token issuer is unavailable" });
  });

  it("accepts an OIDC token that extractToken reads from a cookie, but not from pages of other origins", async () => {
    const issuer = await startIssuer();
    onTestFinished(() => issuer.close());
    const auth: AuthProvider = {
      ...oidcAuth({ issuer: issuer.url, audience: issuer.audience }),
      extractToken: ({ headers }) => /(?:^|; )token=([^;]*)/.exec(headers.get("cookie") ?? "")?.[1],
    };
    const server = await serve(auth, target, { workflows });
    onTestFinished(() => server.close());
    const post = async (headers: Record<string, string>) => {
      const { status } = await server.post("/workflows/quick/execute", { input: {} }, { headers });
      return status;
    };
    const cookie = `token=${issuer.mint()}`;
    expect(await post({ cookie })).toBe(200);
    expect(await post({ cookie, "sec-fetch-site": "cross-site", origin: "https://evil.example" })).toBe(403);
    expect(await post({ cookie, origin: "https://evil.example" })).toBe(403);
    expect(await post(bearer(issuer.mint()).headers)).toBe(401);
    issuer.answer = troubles["closes the connection"];
    expect(await post({ cookie: `token=${issuer.mint({}, { kid: "unknown" })}` })).toBe(503);
    expect(server.logs).toMatchObject([{ message: "The authentication provider failed" }]);
  });

  it("starts a stream with an OIDC token", async () => {
    const { issuer, server } = await createWorld({ target, config: { workflows } });
    const response = await server.send("/workflows/quick/stream", {
      method: "POST",
      headers: { ...bearer(issuer.mint()).headers, "content-type": "application/json" },
      body: JSON.stringify({ input: {} }),
    });
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("workflow-complete")]);
  });
});
