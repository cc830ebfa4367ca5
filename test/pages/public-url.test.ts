import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Window } from "happy-dom";
import { describe, expect, it } from "vitest";
import { defineAgent, defineWorkflow, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import { startTestServer, type TestServer } from "../harness/server.ts";

const parrot = defineAgent({ id: "parrot", instructions: "Repeat.", model: echoModel() });
const behindProxy = { trustedProxies: ["loopback"] };
const forwarded = {
  "x-forwarded-proto": "https",
  "x-forwarded-host": "app.example.com",
  "x-forwarded-prefix": "/ai",
};

describe("behind a trusted proxy", () => {
  it("shows commands with the URL that a client behind a trusted proxy sees", async () => {
    const server = await start(behindProxy);
    expect(await readCommand(server, forwarded)).toBe("curl https://app.example.com/ai/agents/parrot/text");
    expect(await readServers(server, forwarded)).toEqual([{ url: "/ai" }]);
    expect(await readCommand(server, {})).toBe(`curl ${server.url}/agents/parrot/text`);
    expect(await readServers(server, {})).toEqual([{ url: "/" }]);
  });

  it("reads a forwarded host with a port, an IPv6 address, and a prefix of several parts", async () => {
    const server = await start(behindProxy);
    const read = (host: string, prefix: string) =>
      readCommand(server, { "x-forwarded-host": host, "x-forwarded-prefix": prefix });
    expect(await read("localhost:8443", "/a/b/")).toBe("curl http://localhost:8443/a/b/agents/parrot/text");
    expect(await read("[::1]:8443", "/")).toBe("curl 'http://[::1]:8443/agents/parrot/text'");
  });

  it("reads the forwarded values of the outermost trusted proxy, not those of the client", async () => {
    const server = await start({ trustedProxies: ["loopback", "10.0.0.0/8"] });
    const headers = {
      "x-forwarded-for": "203.0.113.7, 10.0.0.2",
      "x-forwarded-host": "evil.example, app.example.com, inner.example",
      "x-forwarded-proto": "ftp, https, http",
      "x-forwarded-prefix": "/evil, /ai, /inner",
    };
    expect(await readCommand(server, headers)).toBe("curl https://app.example.com/ai/agents/parrot/text");
    expect(await readCommand(server, { ...headers, "x-forwarded-for": "203.0.113.7" })).toBe(
      "curl http://inner.example/inner/agents/parrot/text",
    );
  });

  it.each<[string, Record<string, string>]>([
    ["a scheme", { "x-forwarded-proto": "javascript" }],
    ["a host with a path", { "x-forwarded-host": "evil.example/x" }],
    ["a host with a user", { "x-forwarded-host": "user@evil.example" }],
    ["a host with a quote", { "x-forwarded-host": `a'; id; '"` }],
    ["a host with markup", { "x-forwarded-host": "<script>alert(1)</script>" }],
    ["a host with a substitution", { "x-forwarded-host": "$(id)" }],
    ["a host with a port that is none", { "x-forwarded-host": "a.example:99999" }],
    ["a long host", { "x-forwarded-host": `${"a".repeat(300)}.example` }],
    ["a prefix without a slash", { "x-forwarded-prefix": "no-slash" }],
    ["a prefix to another host", { "x-forwarded-prefix": "//evil.example" }],
    ["a prefix with dot segments", { "x-forwarded-prefix": "/ai/../.." }],
    ["a prefix with an escape", { "x-forwarded-prefix": "/%2e%2e" }],
    ["a prefix with a quote", { "x-forwarded-prefix": `/a'"><script>alert(1)</script>` }],
    ["a prefix with a query", { "x-forwarded-prefix": "/ai?x=" }],
    ["a long prefix", { "x-forwarded-prefix": `/${"a".repeat(300)}` }],
  ])("ignores a forwarded %s that is not valid", async (_, headers) => {
    const server = await start(behindProxy);
    expect(await readCommand(server, headers)).toBe(`curl ${server.url}/agents/parrot/text`);
    expect(await readServers(server, headers)).toEqual([{ url: "/" }]);
    const { text } = await server.get("/", { headers });
    for (const value of Object.values(headers)) expect(text).not.toContain(value.slice(0, 12));
  });

  it("puts a forwarded prefix in front of the base path", async () => {
    const server = await start({ ...behindProxy, basePath: "/v1" });
    expect(await (await server.send("/", { headers: forwarded })).text()).toContain(
      "curl https://app.example.com/ai/v1/agents/parrot/text",
    );
  });
});

it("ignores the headers of a proxy that is not trusted", async () => {
  for (const options of [{}, { trustedProxies: ["10.0.0.0/8"] }]) {
    const server = await start(options);
    expect(await readCommand(server, forwarded)).toBe(`curl ${server.url}/agents/parrot/text`);
    expect(await readServers(server, forwarded)).toEqual([{ url: "/" }]);
  }
});

it("never shows one client the host of another", async () => {
  const server = await start(behindProxy);
  const hosts = Array.from({ length: 60 }, (_, n) => `host-${n % 7}.example`);
  const shown = await Promise.all(hosts.map((host) => readCommand(server, { "x-forwarded-host": host })));
  expect(shown).toEqual(hosts.map((host) => `curl http://${host}/agents/parrot/text`));
});

it("keeps the lists of one URL only, however many hosts are asked for", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const workflows = Array.from({ length: 300 }, (_, n) => defineWorkflow({ id: `w${n}` }).andThen({ id: "s", execute: () => n })); // prettier-ignore
  const server = await start(behindProxy, { workflows });
  const ask = async (n: number) => (await server.get("/", { headers: { "x-forwarded-host": `h${n}.example` } })).text;
  const { length } = await ask(0);
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let n = 1; n <= 100; n++) await ask(n);
  collect();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(20 * length);
});

const start = (server: Config["server"], more: Config = {}): Promise<TestServer> =>
  startTestServer("start", { config: { agents: [parrot], ...more, server: { ...server } } });

async function readCommand(server: TestServer, headers: Record<string, string>): Promise<string> {
  const page = new Window().document;
  page.write((await server.get("/", { headers })).text);
  return page.querySelector("pre")!.textContent.split(" \\\n")[0]!;
}

const readServers = async (server: TestServer, headers: Record<string, string>): Promise<unknown> =>
  (await server.get("/doc", { headers })).body.servers;
