import { describe, expect, it } from "vitest";
import { defineAgent, defineWorkflow, type AuthProvider, type Config } from "agentserve";
import { startTestServer, type TestServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

const keys: AuthProvider = {
  type: "key",
  extractToken: ({ headers }) => headers.get("x-api-key"),
  verifyToken: (token) => (token === "faceless" ? { name: "no id" } : { id: token }),
};
const config: Config = {
  workflows: [defineWorkflow({ id: "ask" }).andThen({ id: "one", execute: ({ suspend }) => suspend("Approve?") })],
  agents: [defineAgent({ id: "a", instructions: "Be kind.", model: "none/none" })],
  server: { trustedProxies: ["loopback"], limits: { sseStreamsPerCaller: 2 } },
};
const from = (address: string, key?: string) => ({ "x-forwarded-for": address, ...(key && { "x-api-key": key }) });
const list = "/executions/stream";

/** Opens a stream that stays open. Returns its status, and how to leave it. */
async function open({ send }: TestServer, headers: Record<string, string>, path = list) {
  const { status, body } = await send(path, { headers });
  return { status, leave: () => body?.cancel() };
}

describe("limits.sseStreamsPerCaller", () => {
  it("refuses further streams of a user with 429 and Retry-After, whatever the route and the address", async () => {
    const server = await startTestServer("start", { config: { ...config, auth: keys } });
    const ada = { headers: from("203.0.113.1", "ada") };
    await server.post("/workflows/ask/execute", { input: {}, options: { executionId: "e1" } }, ada);
    const execution = "/workflows/ask/executions/e1/stream?until=end";
    const streams = [
      await open(server, from("203.0.113.1", "ada")),
      await open(server, from("203.0.113.2", "ada"), execution),
    ];
    expect(streams.map(({ status }) => status)).toEqual([200, 200]);
    for (const path of [list, execution, "/agents/a/chat/c1/stream"]) {
      const { status, body, headers } = await server.get(path, ada);
      expect([status, body, headers.get("retry-after")]).toEqual([
        429,
        { success: false, error: "Too many open streams of one caller" },
        "5",
      ]);
    }
    const started = await server.send("/workflows/ask/stream", {
      method: "POST",
      headers: { ...ada.headers, "content-type": "application/json" },
      body: '{"input":{}}',
    });
    expect(started.status).toBe(200); // ends with its work, and does not count
    await started.text();
    const eve = await open(server, from("203.0.113.1", "eve"));
    expect(eve.status).toBe(200);
    for (const stream of [...streams, eve]) await stream.leave();
  });

  it("frees the place of a stream that has ended, and counts no answer without a stream", async () => {
    const server = await startTestServer("start", { config: { ...config, auth: keys } });
    const ada = from("203.0.113.1", "ada");
    for (let n = 0; n < 3; n++)
      expect((await server.get("/agents/a/chat/c1/stream", { headers: ada })).status).toBe(204);
    for (let n = 0; n < 3; n++)
      expect((await server.get("/workflows/ask/executions/no/stream", { headers: ada })).status).toBe(404);
    for (let n = 0; n < 3; n++) {
      const streams = [await open(server, ada), await open(server, ada)];
      expect((await server.get(list, { headers: ada })).status).toBe(429);
      for (const stream of streams) await stream.leave();
      await eventually(async () => {
        const again = await open(server, ada);
        await again.leave();
        expect(again.status).toBe(200);
      });
      await eventually(() => expect(server.snapshot.holders().size).toBe(0));
    }
  });

  it("counts callers without a user id by their address, and IPv6 addresses by their first 64 bits", async () => {
    const server = await startTestServer("start", { config: { ...config, auth: keys } });
    const of = async (...callers: Record<string, string>[]) => {
      const streams = [];
      for (const headers of callers) streams.push(await open(server, headers));
      for (const { leave } of streams) await leave();
      return streams.map(({ status }) => status);
    };
    const faceless = (address: string) => from(address, "faceless");
    expect(await of(...["203.0.113.1", "203.0.113.1", "203.0.113.1", "203.0.113.2"].map(faceless))).toEqual([
      200, 200, 429, 200,
    ]);
    expect(await of(...["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"].map(faceless))).toEqual([
      200, 200, 429, 200,
    ]);
    const withoutAuth = await startTestServer("start", { config });
    const streams = [await open(withoutAuth, from("203.0.113.9")), await open(withoutAuth, from("203.0.113.9"))];
    expect((await withoutAuth.get(list, { headers: from("203.0.113.9") })).status).toBe(429);
    for (const { leave } of streams) await leave();
  });

  it("does not count calls of fetch without a user, which have no address", async () => {
    const server = await startTestServer("in process", { config });
    const streams = await Promise.all([1, 2, 3].map(() => open(server, from("203.0.113.1"))));
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200]);
    for (const { leave } of streams) await leave();
  });
});
