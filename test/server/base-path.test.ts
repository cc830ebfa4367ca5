import { request as requestNode } from "node:http";
import { text as readText } from "node:stream/consumers";
import { H3 } from "h3";
import { Window } from "happy-dom";
import { describe, expect, it, onTestFinished } from "vitest";
import { createServer, createToken, defineAgent, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import { embedded } from "../../src/backends/embedded/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { createTestLogger, openSocket } from "../harness/server.ts";

const secret = "a secret of at least thirty-two bytes";
const authorization = `Bearer ${await createToken({ sub: "ada" }, secret)}`;
const basePath = "/api/ai";
const config: Config = {
  server: { basePath },
  agents: [defineAgent({ id: "parrot", instructions: "Repeat.", model: echoModel() })],
  workflows: [defineWorkflow({ id: "hello" }).andThen({ id: "greet", execute: () => "hi" })],
  configureApp(app) {
    app.get("/where", ({ url, req }) => ({ routed: url.pathname, asked: new URL(req.url).pathname }));
    app.mount(
      "/inner",
      new H3().get("/list", ({ url }) => url.pathname),
    );
    app.mount("/outer", (request: Request) => new Response(new URL(request.url).pathname));
  },
};

describe.each(["in process", "start"] as const)("server.basePath (%s)", (target) => {
  it("serves every route under the base path, and nothing outside of it", async () => {
    const server = await start({});
    const statuses = async (paths: string[]) =>
      Promise.all(paths.map(async (path) => [path, (await ask(server, path)).status]));
    expect(await statuses(["", "/", "/doc", "/ui", "/agents", "/workflows/hello", "/health", "/where"])).toEqual(
      ["", "/", "/doc", "/ui", "/agents", "/workflows/hello", "/health", "/where"].map((path) => [path, 200]),
    );
    for (const path of ["/", "/doc", "/api", "/api/", "/api/aix", "/api/aix/doc", "/API/AI/doc", "/ai/doc"]) {
      const response = await server.send(path, {});
      expect([path, response.status, await response.json()]).toEqual([
        path,
        404,
        { success: false, error: "Not found" },
      ]);
      expect(response.headers.get("x-request-id")).toMatch(/./);
    }
    // It is removed once.
    expect((await ask(server, "/api/ai/doc")).status).toBe(404);
  });

  it("reads escapes and dot segments in the base path as in any path", async () => {
    const server = await start({});
    for (const path of ["/api/%61i/doc", "/%61%70%69/ai/doc", "/x/../api/ai/doc", "/api/ai/x/../doc", "/api/./ai/doc"])
      expect([path, (await server.send(path, {})).status]).toEqual([path, 200]);
    const others = "/api%2fai/doc /api/ai%2fdoc //api/ai/doc /api//ai/doc /api/ai/../doc /api\\aix/doc".split(" ");
    for (const path of others) expect([path, (await server.send(path, {})).status]).toEqual([path, 404]);
  });

  it("gives custom routes the path without the base path, and the URL of the client", async () => {
    const server = await start({});
    expect(await (await ask(server, "/where")).json()).toEqual({ routed: "/where", asked: "/api/ai/where" });
    expect(await (await ask(server, "/inner/list")).text()).toBe("/inner/list");
    expect(await (await ask(server, "/outer/x")).text()).toBe("/x");
  });

  it("calls onRequest of configureApp with the path without the base path", async () => {
    const seen: string[] = [];
    const server = await start({
      configureApp(app) {
        app.config.onRequest = ({ url }) => void seen.push(url.pathname);
        app.get("/where", () => "here");
      },
    });
    expect(await (await ask(server, "/where")).text()).toBe("here");
    expect(seen).toEqual(["/where"]);
  });

  it("matches entries of publicRoutes and protect without the base path", async () => {
    const auth = jwtAuth({ secret, defaultPrivate: true, publicRoutes: ["GET /workflows", "GET /api/ai/agents"] });
    const server = await start({ auth });
    expect((await ask(server, "/workflows")).status).toBe(200);
    expect((await ask(server, "/agents")).status).toBe(401);
    expect((await ask(server, "/agents", { headers: { authorization } })).status).toBe(200);
    expect((await ask(server, "/health")).status).toBe(200);
  });

  it("shows the host's middleware the path without the base path with cors: false", async () => {
    const seen: string[] = [];
    const server = await start({
      server: { basePath, cors: false },
      configureApp(app) {
        app.use((event, next) => {
          seen.push(event.url.pathname);
          return next();
        });
      },
    });
    expect((await ask(server, "/doc")).status).toBe(200);
    expect((await server.send("/doc", {})).status).toBe(404);
    expect(seen.at(-1)).toBe("/doc");
  });

  it("has the base path in commands and links of the landing page, and in /doc", async () => {
    const server = await start({});
    for (const path of ["", "/"]) {
      const page = new Window().document;
      page.write(await (await ask(server, path)).text());
      const origin = new URL(server.url).origin;
      const commands = [...page.querySelectorAll("pre")].map(({ textContent }) => textContent.split(" \\\n")[0]);
      expect(commands).toEqual([
        `curl ${origin}/api/ai/agents/parrot/text`,
        `curl ${origin}/api/ai/workflows/hello/execute`,
      ]);
      for (const link of page.querySelectorAll("a")) {
        const { pathname } = new URL(link.getAttribute("href")!, `${origin}/api/ai${path}`);
        expect([pathname, (await server.send(pathname, {})).status]).toEqual([pathname, 200]);
      }
    }
    expect(await (await ask(server, "/doc")).json()).toMatchObject({ servers: [{ url: "/api/ai" }] });
  });

  if (target === "in process") return; // it has no URL

  it("has the base path in the URL that listen returns", async () => {
    const server = await start({});
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/api\/ai$/);
  });

  it("opens WebSockets under the base path only", async () => {
    const server = await start({});
    const socket = await openSocket(`${server.url.replace("http", "ws")}/ws`);
    expect(await socket.next()).toMatchObject({ type: "CONNECTION_TEST" });
    socket.close();
    const outside = openSocket(`${new URL(server.url).origin.replace("http", "ws")}/ws`);
    await expect(outside).rejects.toMatchObject({ status: 404, body: '{"success":false,"error":"Not found"}' });
  });

  async function start(more: Config): Promise<TestServer> {
    const project = toProject({ backend: embedded({ path: ":memory:" }), ...config, ...more });
    const server = openServer(project, { mode: "start", logger: createTestLogger([]) });
    onTestFinished(() => server.close());
    if (target === "in process") {
      const url = "http://localhost/api/ai";
      return { url, send: (path, init) => server.fetch(new Request(`http://localhost${path}`, init)) };
    }
    const { url, port } = await server.listen({ port: 0 });
    return { url, send: (path, init) => sendRaw(port, path, init) };
  }
});

it("refuses a base path that is not a plain path", () => {
  for (const text of [..."api,/,,/api/,/api?x,/api#x,/../api,/api/..,/a//b,/%61pi,/a b".split(","), 1]) {
    expect(() => createServer({ server: { basePath: text as string } })).toThrow(
      `config: server.basePath: expected a path such as "/api/ai": letters, digits and . _ ~ - only, without a "/" at its end, found ${JSON.stringify(text)}`,
    );
  }
  for (const text of ["/api", "/a.b/c_d/~e-f", "/..a", "/.well-known/ai"])
    expect(() => createServer({ server: { basePath: text } })).not.toThrow();
});

it("the command line prints URLs with the base path, and `call` takes them", async () => {
  const cwd = createProject({
    "agents.config.ts": `import { defineConfig, defineWorkflow } from "agentserve";
const hello = defineWorkflow({ id: "hello" }).andThen({ id: "greet", execute: () => "hi" });
export default defineConfig({ workflows: [hello], server: { basePath: "/api/ai" } });\n`,
  });
  const { stdout } = await agentserve(["routes", "--json"], { cwd }).ended;
  const paths = (JSON.parse(stdout) as { path: string }[]).map(({ path }) => path);
  expect(paths).toEqual(
    expect.arrayContaining(["/api/ai", "/api/ai/doc", "/api/ai/workflows/:id/execute", "/api/ai/ws"]),
  );
  expect(paths.filter((path) => !path.startsWith("/api/ai"))).toEqual([]);
  const child = agentserve(["start", "--port", "0", "--data", ":memory:"], { cwd });
  const [url] = await child.waitFor(/http:\/\/\S+:\d+\/api\/ai/);
  await child.waitFor(new RegExp(`${url}/ui  ·  /doc`));
  const called = await agentserve(["call", "workflow", "hello", "{}", "--url", url, "--json"], { cwd }).ended;
  expect([called.code, called.stdout]).toEqual([0, expect.stringContaining("hi")]);
});

interface TestServer {
  readonly url: string;
  send(path: string, init: { headers?: Record<string, string> }): Promise<Response>;
}

/** Asks for a path under the base path. */
const ask = (server: TestServer, path: string, init = {}): Promise<Response> => server.send(basePath + path, init);

/** Sends a path as it is written: `fetch` would resolve its dot segments. */
async function sendRaw(port: number, path: string, { headers = {} }: Parameters<TestServer["send"]>[1]) {
  const { promise, resolve, reject } = Promise.withResolvers<Response>();
  const request = requestNode({ port, host: "127.0.0.1", path, headers, agent: false }, async (response) => {
    const { statusCode: status = 0, headersDistinct } = response;
    const pairs = Object.entries(headersDistinct).flatMap(([name, all = []]) =>
      all.map((one) => [name, one] as [string, string]),
    );
    resolve(new Response(await readText(response), { status, headers: pairs }));
  });
  request.on("error", reject).end();
  return promise;
}
