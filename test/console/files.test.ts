import { createHash } from "node:crypto";
import { Window } from "happy-dom";
import { H3 } from "h3";
import { describe, expect, it } from "vitest";
import { jwtAuth, type Config } from "agentserve";
import { describeServer, startTestServer } from "../harness/server.ts";
import { openConsole } from "./world.ts";

const secret = "a secret of at least thirty-two bytes";
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const parse = (text: string) => new new Window().DOMParser().parseFromString(text, "text/html");
const isConsole = (text: string): boolean => text.includes('<div id="console"></div>');
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

describeServer("GET /console", { config: { console: true }, only: ["start"] }, (server) => {
  it("GET /console is a page without data, under a strict policy, whose files are its own", async () => {
    const { status, headers, text } = await server.get("/console");
    expect(status).toBe(200);
    expect(Object.fromEntries(headers)).toMatchObject({
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy,
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "cache-control": "no-cache",
    });
    const page = parse(text);
    expect(page.documentElement.getAttribute("lang")).toBe("en");
    expect(page.documentElement.getAttribute("data-base")).toBe("");
    expect(page.title).toBe("agentserve");
    expect(page.querySelector("meta[name=viewport]")!.getAttribute("content")).toContain("width=device-width");
    expect(page.querySelector("meta[name=color-scheme]")!.getAttribute("content")).toBe("light dark");
    expect(page.querySelector("link[rel=icon]")!.getAttribute("href")).toMatch(/^data:/);
    expect(page.querySelectorAll("script:not([src]), style, [style]")).toHaveLength(0);
    expect(page.querySelector("script")!.getAttribute("type")).toBe("module");
    expect(page.querySelector("noscript")).not.toBeNull();
    for (const [selector, name] of [
      ["link[rel=stylesheet]", "console.css"],
      ["script", "console.js"],
    ] as const) {
      const element = page.querySelector(selector)!;
      const place = element.getAttribute("href") ?? element.getAttribute("src")!;
      expect(place).toMatch(new RegExp(`^console/assets/${name}\\?v=[0-9a-f]{16}$`));
      const file = await server.get(`/${place}`);
      expect(file.status).toBe(200);
      expect(createHash("sha256").update(file.text).digest("hex").slice(0, 16)).toBe(place.slice(-16));
    }
  });

  it("GET /console/assets lets a browser cache a file for ever by its version, and not without one", async () => {
    const page = (await server.get("/console")).text;
    const [, version = ""] = /console\.js\?v=(\w+)/.exec(page)!;
    const at = async (query: string) =>
      (await server.get(`/console/assets/console.js${query}`)).headers.get("cache-control");
    expect(await at(`?v=${version}`)).toBe("public, max-age=31536000, immutable");
    expect(await at("?v=0123456789abcdef")).toBe("no-cache");
    expect(await at("")).toBe("no-cache");
  });

  it.each<[accept: string | undefined, isGzip: boolean]>([
    ["gzip", true],
    ["GZIP;q=0.5, deflate", true],
    ["br, *", true],
    ["gzip;q=0", false],
    ["*, gzip;q=0.0", false],
    ["br, deflate", false],
    ["xgzip", false],
    ["identity", false],
  ])("GET /console/assets with accept-encoding: %s is compressed: %s", async (accept, isGzip) => {
    const headers = { "accept-encoding": accept ?? "" };
    const plain = await server.get("/console/assets/console.css", { headers: { "accept-encoding": "identity" } });
    const response = await server.send("/console/assets/console.css", { headers });
    expect(response.headers.get("content-encoding")).toBe(isGzip ? "gzip" : null);
    expect(response.headers.get("vary")).toContain("accept-encoding");
    expect(await response.text()).toBe(plain.text); // `fetch` decompresses
  });

  it("GET /console/assets answers 304 to a client that has the file, by the tag of its encoding", async () => {
    const tags = new Set<string>();
    for (const encoding of ["gzip", "identity"]) {
      const headers = { "accept-encoding": encoding };
      const tag = (await server.send("/console/assets/console.js", { headers })).headers.get("etag")!;
      tags.add(tag);
      for (const known of [tag, `W/${tag}`, `"other", ${tag}`, "*"]) {
        const again = await server.get("/console/assets/console.js", {
          headers: { ...headers, "if-none-match": known },
        });
        expect([known, again.status, again.text, again.headers.get("etag")]).toEqual([known, 304, "", tag]);
      }
      const other = { ...headers, "if-none-match": '"other"' };
      expect((await server.send("/console/assets/console.js", { headers: other })).status).toBe(200);
    }
    expect(tags.size).toBe(2);
  });

  it("answers HEAD of the console's paths like GET, without a body", async () => {
    for (const path of ["/console", "/console/assets/console.js", "/console/session"]) {
      const [get, head] = [await server.get(path), await server.request(path, { method: "HEAD" })];
      expect([path, head.status, head.text]).toEqual([path, get.status, ""]);
      expect(head.headers.get("content-type")).toBe(get.headers.get("content-type"));
    }
  });

  it("GET /console/assets answers 404 to other file names", async () => {
    for (const name of ["console.map", "..%2fcli.mjs", "%2e%2e%2findex.mjs", "constructor", "console.js%00"]) {
      expect([name, (await server.get(`/console/assets/${name}`)).status]).toEqual([name, 404]);
    }
  });

  it("shows the console at / to a browser, and to no other client", async () => {
    for (const [accept, due] of [
      [browser, true],
      ["TEXT/HTML", true],
      ["application/json, text/html;q=0.1", true],
      ["text/html;q=0", false],
      ["*/*", false],
      ["text/*", false],
      ["application/json", false],
      ["text/htmlx", false],
    ] as const) {
      const { status, headers, text } = await server.get("/", { headers: { accept } });
      expect([accept, status, isConsole(text), text.includes("<h1>agentserve")]).toEqual([accept, 200, due, !due]);
      expect(headers.get("vary")?.split(", ")).toContain("accept");
      expect(headers.get("content-security-policy") === policy).toBe(due);
    }
  });
});

it("varies / by accept and origin where cors names origins", async () => {
  const origin = "http://page.test";
  const server = await startTestServer("start", { config: { console: true, server: { cors: { origin: [origin] } } } });
  for (const accept of [browser, "*/*"]) {
    const { headers } = await server.get("/", { headers: { accept, origin } });
    expect(headers.get("vary")!.split(", ").toSorted()).toEqual(["accept", "origin"]);
  }
});

describe("the console", () => {
  it.each<[Config["console"], "dev" | "start", boolean]>([
    [undefined, "dev", true],
    [undefined, "start", false],
    [true, "start", true],
    [false, "dev", false],
    [{ readOnly: true }, "start", true],
    [{}, "start", true],
  ])("with console: %j in %s, the console is served: %s", async (setting, mode, isServed) => {
    const config: Config = setting === undefined ? {} : { console: setting };
    const { ask } = await openConsole(config, { mode });
    for (const path of ["/console", "/console/assets/console.js", "/console/session"])
      expect([path, (await ask(path)).status]).toEqual([path, isServed ? 200 : 404]);
    const home = await ask("/", { headers: { accept: browser } });
    expect([isConsole(home.text), home.headers["vary"]?.includes("accept") ?? false]).toEqual([isServed, isServed]);
    const { paths } = (await ask("/doc")).body;
    expect("/console/session" in paths).toBe(isServed);
    expect("/console/api/problem" in paths).toBe(isServed && mode === "dev");
  });

  it("serves no console in process by default", async () => {
    const off = await startTestServer("in process");
    expect((await off.get("/console")).status).toBe(404);
  });

  it("serves only the console's files without a token under a provider that closes everything", async () => {
    const { ask } = await openConsole({ auth: jwtAuth({ secret, defaultPrivate: true }) });
    const statuses = async (...paths: string[]) =>
      Promise.all(paths.map(async (path) => (await ask(path, { headers: { accept: browser } })).status));
    expect(await statuses("/console", "/console/", "/console/assets/console.css")).toEqual([200, 200, 200]);
    expect(await statuses("/console/session", "/console/api/problem", "/console/nope", "/agents", "/ui")).toEqual(
      Array(5).fill(401),
    );
  });

  it("shows the console at / to a browser also if / is protected, which it stays for other clients", async () => {
    const { ask } = await openConsole({ auth: jwtAuth({ secret, defaultPrivate: true }) });
    const shown = await ask("/", { headers: { accept: browser } });
    expect([shown.status, isConsole(shown.text), shown.headers["vary"]]).toEqual([200, true, "accept"]);
    const wrong = { accept: browser, authorization: "Bearer wrong" };
    expect(isConsole((await ask("/", { headers: wrong })).text)).toBe(true);
    for (const accept of ["*/*", "application/json"]) {
      const { status, text } = await ask("/", { headers: { accept } });
      expect([status, text]).toEqual([401, expect.stringContaining("Authentication required")]);
    }
    expect((await ask("/", { method: "POST", headers: { accept: browser } })).status).toBe(401);
    const off = await openConsole({ auth: jwtAuth({ secret, defaultPrivate: true }) }, { mode: "start" });
    expect((await off.ask("/", { headers: { accept: browser } })).status).toBe(401);
    const replaced = await openConsole({
      auth: jwtAuth({ secret, defaultPrivate: true }),
      configureApp: (app) => void app.get("/console", () => "theirs"),
    });
    expect((await replaced.ask("/", { headers: { accept: browser } })).status).toBe(401);
  });

  it.each(["/api/ai", "/x"])("the console's links lead to its files under the base path %s", async (basePath) => {
    const { ask, url } = await openConsole({ server: { basePath } });
    expect(url.endsWith(basePath)).toBe(true);
    for (const path of ["/console", "/console/", "", "/"]) {
      const address = basePath + path;
      const { status, text } = await ask(address, { headers: { accept: browser } });
      expect([address, status, isConsole(text)]).toEqual([address, 200, true]);
      const page = parse(text);
      const base = page.documentElement.getAttribute("data-base")!;
      const script = page.querySelector("script")!.getAttribute("src")!;
      expect(script.startsWith(`${base}console/assets/`)).toBe(true);
      const at = (link: string): string => new URL(link, `http://localhost${address}`).pathname;
      expect([at(script), at(`${base}agents`)]).toEqual([
        `${basePath}/console/assets/console.js`,
        `${basePath}/agents`,
      ]);
      expect((await ask(at(script))).status).toBe(200);
    }
    expect((await ask("/console")).status).toBe(404);
  });
});

describe("a host with a route at or below /console", () => {
  const hosts: [title: string, NonNullable<Config["configureApp"]>, path: string][] = [
    ["a page", (app) => void app.get("/console", () => "theirs"), "/console"],
    ["a route for all methods", (app) => void app.all("/console", () => "theirs"), "/console"],
    ["a file", (app) => void app.get("/console/assets/logo.svg", () => "theirs"), "/console/assets/logo.svg"],
    ["a wildcard", (app) => void app.get("/console/**", () => "theirs"), "/console/assets/console.js"],
    ["a session route", (app) => void app.get("/console/session", () => "theirs"), "/console/session"],
    [
      "an app",
      (app) =>
        void app.mount(
          "/console",
          new H3().get("/api/problem", () => "theirs"),
        ),
      "/console/api/problem",
    ],
    ["a fetch-style app", (app) => void app.mount("/console", { fetch: () => new Response("theirs") }), "/console/x"],
    [
      "middleware",
      (app) =>
        void app.mount(
          "/console",
          new H3().use(() => "theirs"),
        ),
      "/console/session",
    ],
  ];

  it.each(hosts)("turns the console off for a host with %s at or below /console", async (_, configureApp, path) => {
    const { ask, server, logs } = await openConsole({ configureApp });
    expect(await ask(path)).toMatchObject({ status: 200, text: "theirs" });
    const home = await ask("/", { headers: { accept: browser } });
    expect(isConsole(home.text)).toBe(false);
    expect(
      server.routes().filter(({ from, path: one }) => from === "agentserve" && one.startsWith("/console")),
    ).toEqual([]);
    const { body } = await ask("/console/api/session", { json: { token: server.sessions!.link } });
    expect(body?.data?.token).toBeUndefined();
    expect(logs.map(({ message }) => message)).toContain("configureApp replaces the built-in route GET /console");
  });

  it.each<[string, NonNullable<Config["configureApp"]>]>([
    ["a route beside /console", (app) => void app.get("/consoles", () => "theirs").get("/console-x/y", () => "theirs")],
    ["a route for every path", (app) => void app.all("/**", () => "theirs")],
  ])("serves the console to a host with %s", async (_, configureApp) => {
    const { ask } = await openConsole({ configureApp });
    expect(isConsole((await ask("/console")).text)).toBe(true);
  });
});
