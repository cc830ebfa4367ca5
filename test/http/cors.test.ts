import { describe, expect, it } from "vitest";
import { createServer, type CorsOptions } from "agentserve";
import { startServer, startTestServer } from "../harness/server.ts";

const ask = async (cors: CorsOptions | false | undefined, headers: Record<string, string>, method = "GET") => {
  const server = await startServer("in process", { config: { server: { cors } } });
  const answer = await server.request("/workflows", { method, headers });
  await server.close();
  const allowed: Record<string, string> = {};
  for (const [name, value] of answer.headers) {
    if (name.startsWith("access-control-") || name === "vary") allowed[name.replace("access-control-", "")] = value;
  }
  return { status: answer.status, ...allowed };
};
const asking = {
  origin: "http://a.test",
  "access-control-request-method": "POST",
  "access-control-request-headers": "authorization",
};
const expose = "x-request-id, x-execution-id";

describe("cors", () => {
  it("allows every origin when cors is omitted", async () => {
    expect(await ask(undefined, {})).toEqual({ status: 200, "allow-origin": "*", "expose-headers": expose });
    expect(await ask(undefined, asking, "OPTIONS")).toEqual({
      status: 204,
      "allow-origin": "*",
      "allow-methods": "POST",
      "allow-headers": "authorization",
      vary: "access-control-request-headers",
    });
  });
  it("sends no CORS headers with cors: false", async () => {
    expect(await ask(false, asking)).toEqual({ status: 200 });
    expect(await ask(false, asking, "OPTIONS")).toEqual({ status: 405 });
  });
  it.each<[string, CorsOptions["origin"]]>([
    ["a string", "http://a.test"],
    ["an array", ["http://b.test", "http://a.test"]],
    ["a function", (origin) => (origin.endsWith("a.test") ? origin : undefined)],
  ])("allows the origins of cors given as %s", async (_, origin) => {
    expect(await ask({ origin }, { origin: "http://a.test" })).toEqual({
      status: 200,
      "allow-origin": "http://a.test",
      "expose-headers": expose,
      vary: "origin",
    });
    expect(await ask({ origin }, { origin: "http://c.test" })).toEqual({ status: 200, vary: "origin" });
    expect(await ask({ origin }, {})).toEqual({ status: 200, vary: "origin" });
    expect(await ask({ origin }, { ...asking, origin: "http://c.test" }, "OPTIONS")).toEqual({
      status: 204,
      vary: "origin, access-control-request-headers",
    });
  });
  it("sends the CORS headers of the other options", async () => {
    const cors = {
      origin: "http://a.test",
      allowHeaders: ["x-a"],
      allowMethods: ["GET", "POST"],
      exposeHeaders: ["x-b"],
      maxAge: 60,
      credentials: true,
    };
    expect(await ask(cors, asking, "OPTIONS")).toEqual({
      status: 204,
      "allow-origin": "http://a.test",
      "allow-credentials": "true",
      "allow-methods": "GET, POST",
      "allow-headers": "x-a",
      "max-age": "60",
      vary: "origin",
    });
    expect(await ask(cors, { origin: "http://a.test" })).toMatchObject({
      "expose-headers": `${expose}, x-b`,
      "allow-credentials": "true",
    });
  });
  it("allows every origin by a star in an array", async () => {
    expect(await ask({ origin: ["*"] }, { origin: "http://a.test" })).toMatchObject({ "allow-origin": "*" });
  });
  it("adds Origin to the Vary header of a custom route", async () => {
    const server = await startTestServer("in process", {
      config: {
        server: { cors: { origin: "http://a.test" } },
        configureApp: (app) => void app.get("/x", () => new Response("x", { headers: { vary: "accept" } })),
      },
    });
    expect((await server.get("/x", { custom: true })).headers.get("vary")).toBe("accept, origin");
  });
  it.each([undefined, "*", ["*"]])("refuses cors with credentials and the origin %j", (origin) => {
    expect(() => createServer({ server: { cors: { origin, credentials: true } } })).toThrow(
      /server\.cors\.credentials: expected false, or named origins/,
    );
  });
  it.each([
    ["POST", "cross-site", "http://evil.test", 403],
    ["POST", "same-site", "http://evil.test", 403],
    ["DELETE", "cross-site", "null", 403],
    ["POST", "cross-site", "http://a.test", 405],
    ["POST", "same-origin", "http://behind-a-proxy.test", 405],
    ["POST", undefined, "http://evil.test", 403],
    ["POST", undefined, "http://localhost", 405],
    ["GET", "cross-site", "http://evil.test", 200],
  ])(
    "runs nothing for a page of an origin that cors does not allow: %s, %s, %s",
    async (method, site, origin, status) => {
      const headers = { origin, ...(site && { "sec-fetch-site": site }) };
      expect(await ask({ origin: "http://a.test" }, headers, method)).toMatchObject({ status });
      expect((await ask(undefined, headers, method)).status).toBe(method === "GET" ? 200 : 405);
    },
  );
});
