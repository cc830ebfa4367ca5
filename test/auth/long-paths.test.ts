import { expect, it } from "vitest";
import { createPolicy } from "../../src/auth/policy.ts";
import { jwtAuth } from "../../src/auth/jwt.ts";
import { cpuMs } from "../harness/cpu.ts";
import { describeServer } from "../harness/server.ts";

const seen: string[] = [];
const access = { publicRoutes: ["GET /open/*", "GET /doc"], protect: ["GET /files/*"] };
const config = {
  auth: jwtAuth({ secret: "x".repeat(32), defaultPrivate: true, ...access }),
  configureApp: (app: any) => app.get("/open/**", ({ url }: any) => void seen.push(url.pathname)),
};
const error = "Path too long: expected at most 2048 characters and 64 segments";
const longest = `/open/${"x".repeat(2_042)}`;
const deepest = `/open${"/x".repeat(63)}`;

describeServer("a long path", { config, only: ["in process"] }, (server) => {
  it.each([
    ["in characters", `${longest}x`],
    ["in segments", `${deepest}/x`],
    ["of a built-in route", `/workflows/${"x".repeat(3_000)}`],
  ])("a path with %s gets 414 before it is matched", async (_, path) => {
    const { status, body } = await server.get(path, { custom: true });
    expect([status, body]).toEqual([414, { success: false, error }]);
  });

  it("a path at its limits is matched", async () => {
    seen.length = 0;
    for (const path of [longest, deepest]) expect((await server.get(path, { custom: true })).status).toBe(200);
    expect(seen).toEqual([longest, deepest]);
    expect((await server.get(`/${"x".repeat(2_047)}`, { custom: true })).status).toBe(401);
  });

  it("a request may have a long query", async () => {
    expect((await server.get(`/open/x?${"q".repeat(8_000)}`, { custom: true })).status).toBe(200);
  });
});

describeServer("a long path on the wire", { config, only: ["dev", "start"] }, (server) => {
  it.each([
    ["dots that are escaped twice", "/%252e".repeat(2_000)],
    ["slashes", "/".repeat(10_000)],
    ["backslashes", `/${"\\".repeat(10_000)}`],
  ])("a path of %s on the wire gets 414", async (_, path) => {
    const answer = await server.raw(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 414 /);
    expect(answer).toContain(JSON.stringify({ success: false, error }));
  });

  it("an upgrade with a long path gets 414", async () => {
    await expect(server.socket(`/ws/${"x".repeat(3_000)}`)).rejects.toMatchObject({
      status: 414,
      body: JSON.stringify({ success: false, error }),
    });
  });
});

it.each([
  ["plain", "/x".repeat(1_024)],
  ["encoded", `/${"%c3%a9".repeat(340)}`],
  ["of slashes", "/".repeat(2_048)],
  ["of encoded dots", "/%2e%2e".repeat(292)],
  ["of backslashes", `/${"\\".repeat(2_047)}`],
])("the policy reads a %s path of 2,048 characters in little time", (_, path) => {
  const policy = createPolicy(access);
  const decide = () => policy.decide({ method: "GET", path, route: undefined });
  for (let i = 0; i < 20; i++) decide();
  const times = Array.from({ length: 20 }, () => cpuMs(decide));
  expect(Math.min(...times)).toBeLessThan(2);
});
