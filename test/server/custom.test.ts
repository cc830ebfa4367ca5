import { defineWebSocketHandler, getRouterParams, H3, HTTPError, handleCors, readValidatedBody } from "h3";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { createServer, createToken, jwtAuth, ServeError, type Config } from "agentserve";
import { testRows } from "../harness/rows.ts";
import type { Answer } from "../harness/client.ts";
import { describeServer, startTestServer, type TestServer } from "../harness/server.ts";

const config: Config = {
  server: { limits: { bodyBytes: 1_000 } },
  configureApp(app) {
    app.get("/hello", () => "hi");
    app.get("/files/**", (event) => ({ rest: event.context.params?.["_"] }));
    app.post("/hook", async (event) => ({ got: await event.req.json() }));
    app.get("/teapot", () => {
      throw new HTTPError({ status: 418, message: "teapot" });
    });
    app.get("/locked", () => {
      throw new HTTPError({ status: 401, message: "who?", headers: { "www-authenticate": "Basic" } });
    });
    app.get("/conflict", () => {
      throw new ServeError(409, "Conflict here", { headers: [["retry-after", "1"]] });
    });
    app.get("/crash", () => {
      throw new Error("a detail that nobody may see");
    });
    app.get("/away", () => Response.redirect("http://x.test/"));
    app.delete("/workflows/:id", () => "deleted");
    app.mount(
      "/admin",
      new H3().get("/list", () => "admin list"),
    );
  },
};

describeServer("configureApp", { config, rows: testRows, only: ["in process", "start"] }, (server) => {
  it("serves the routes of configureApp beside the built-in ones", async () => {
    expect((await server.get("/hello", { custom: true })).text).toBe("hi");
    expect((await server.get("/files/a/b", { custom: true })).body).toEqual({ rest: "a/b" });
    expect((await server.post("/hook", { a: 1 }, { custom: true })).body).toEqual({ got: { a: 1 } });
    expect((await server.get("/admin/list", { custom: true })).text).toBe("admin list");
    expect((await server.request("/workflows/x", { method: "DELETE", custom: true })).text).toBe("deleted");
    const away = await server.get("/away", { custom: true });
    expect([away.status, away.headers.get("location"), away.headers.get("access-control-allow-origin")]).toEqual([
      302,
      "http://x.test/",
      "*",
    ]);
  });

  it.each([
    ["/teapot", 418, "teapot"],
    ["/conflict", 409, "Conflict here"],
    ["/crash", 500, "Internal server error"],
  ])("answers in the envelope to an error of the custom route %s", async (path, status, error) => {
    const answer = await server.get(path, { custom: true });
    expect([answer.status, answer.body]).toEqual([status, { success: false, error }]);
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  });

  it("sends the headers of an error that a custom route throws", async () => {
    expect((await server.get("/locked", { custom: true })).headers.get("www-authenticate")).toBe("Basic");
    expect((await server.get("/conflict", { custom: true })).headers.get("retry-after")).toBe("1");
  });

  it("answers 413 to a body over the limit that a custom route reads", async () => {
    const answer = await server.post("/hook", { x: "y".repeat(1_000) }, { custom: true });
    expect([answer.status, answer.body]).toEqual([413, { success: false, error: "Request body too large" }]);
  });
});

const secret = "a secret of at least thirty-two bytes";
const ada = { headers: { authorization: `Bearer ${await createToken({ sub: "ada" }, secret)}` }, custom: true };
const stranger = { headers: {}, custom: true };
const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"] as const;

const features: Config = {
  auth: jwtAuth({ secret, protect: ["ALL /closed/*"] }),
  configureApp(app) {
    for (const method of methods) app.on(method, "/closed/method", ({ req }) => `${req.method} ran`);
    app.get("/closed/static", (event) => event.context.authenticatedUser!);
    app.get("/closed/users/:user/posts/:post", (event) => ({ ...getRouterParams(event) }));
    app.get("/closed/files/**", (event) => ({ ...getRouterParams(event) }));
    app.get("/closed/guarded", () => "behind", {
      middleware: [
        (event) => {
          if (event.url.searchParams.has("stop"))
            throw new ServeError(403, `Not you, ${String(event.context.authenticatedUser?.["id"])}`);
        },
      ],
    });
    app.post("/closed/validated", async (event) => {
      const { n } = await readValidatedBody(event, v.strictObject({ n: v.number() }));
      return { twice: 2 * n };
    });
    const group = new H3();
    group.use((event) => void event.res.headers.set("x-group", "yes"));
    group.get("/list", (event) => ({ by: event.context.authenticatedUser?.["id"] }));
    app.mount("/closed/group", group);
    app.mount("/closed/fetch", (request: Request) => new Response(new URL(request.url).pathname));
    app.get("/closed/error", () => {
      throw new HTTPError({ status: 418, message: "teapot" });
    });
    app.get(
      "/closed/socket",
      defineWebSocketHandler({
        open: (peer) => void peer.send(JSON.stringify(peer.context["authenticatedUser"] ?? null)),
      }),
    );
    app.get("/open/socket", defineWebSocketHandler({ open: (peer) => void peer.send('"open"') }));
    app.config.onError = (error) => Response.json({ mine: error.message }, { status: error.status });
    app.all("/**", ({ req }) => new Response(`no ${req.method} here`, { status: 404 }));
  },
};

describeServer("a custom route behind auth", { config: features, only: ["start"] }, (server) => {
  const ask = async (path: string, init: object = {}, who: object = ada) => {
    const { status, body, text } = await server.request(path, { ...who, ...init });
    return [status, body ?? text];
  };
  const refused = [401, { success: false, error: "Authentication required" }];

  it("runs a protected custom route of any method and pattern for a caller with a token, and answers 401 to others", async () => {
    const cases: [path: string, method: string, answer: unknown][] = [
      ...methods.map((method): [string, string, string] => ["/closed/method", method, `${method} ran`]),
      ["/closed/static", "GET", { sub: "ada", id: "ada", iat: expect.any(Number) }],
      ["/closed/users/a%20b/posts/7", "GET", { user: "a%20b", post: "7" }],
      ["/closed/files/a/b.txt", "GET", expect.objectContaining({ _: "a/b.txt" })],
    ];
    for (const [path, method, answer] of cases) {
      expect(await ask(path, { method })).toEqual([200, answer]);
      expect(await ask(path, { method }, stranger)).toEqual(refused);
    }
  });
  it("runs the middleware of a protected custom route after the check of the token", async () => {
    expect(await ask("/closed/guarded")).toEqual([200, "behind"]);
    expect(await ask("/closed/guarded?stop")).toEqual([403, { mine: "Not you, ada" }]);
    expect(await ask("/closed/guarded?stop", {}, stranger)).toEqual(refused);
  });
  it("lets a protected custom route validate its body", async () => {
    expect(await ask("/closed/validated", { method: "POST", body: '{"n":2}' })).toEqual([200, { twice: 4 }]);
    expect((await ask("/closed/validated", { method: "POST", body: '{"n":"2"}' }))[0]).toBe(400);
    expect(await ask("/closed/validated", { method: "POST", body: '{"n":2}' }, stranger)).toEqual(refused);
  });
  it("protects custom routes in a group with middleware, and in a mounted app", async () => {
    const answer = await server.request("/closed/group/list", ada);
    expect([answer.body, answer.headers.get("x-group")]).toEqual([{ by: "ada" }, "yes"]);
    expect(await ask("/closed/group/list", {}, stranger)).toEqual(refused);
    expect(await ask("/closed/fetch/deep/er")).toEqual([200, "/deep/er"]);
    expect(await ask("/closed/fetch/deep/er", {}, stranger)).toEqual(refused);
    expect(await ask("/closed/fetch//deep")).toEqual([404, { mine: "HTTPError 404" }]);
  });
  it("calls the host's error handler for a protected custom route, but not for its 401", async () => {
    expect(await ask("/closed/error")).toEqual([418, { mine: "teapot" }]);
    expect(await ask("/closed/error", {}, stranger)).toEqual(refused);
  });
  it("lets a catch-all custom route answer unknown paths, but not protected ones without a token", async () => {
    expect(await ask("/nope", {}, stranger)).toEqual([404, "no GET here"]);
    expect(await ask("/closed/nope")).toEqual([404, "no GET here"]);
    expect(await ask("/closed/nope", {}, stranger)).toEqual(refused);
  });

  it("opens a custom WebSocket with the user of its header, protocol or query", async () => {
    const token = ada.headers.authorization.slice(7);
    const first = async (path: string, protocols: string[] = [], headers = {}) => {
      const socket = await server.socket(path, { protocols, headers });
      const message = await socket.next();
      socket.close();
      return { message, protocol: socket.ws.protocol };
    };
    const known = { id: "ada" };
    expect(await first("/closed/socket", [], ada.headers)).toMatchObject({ message: known });
    expect(await first(`/closed/socket?token=${token}`)).toMatchObject({ message: known });
    expect(await first("/closed/socket", ["bearer", token])).toMatchObject({ message: known, protocol: "bearer" });
    expect(await first("/closed/socket", ["mine", "bearer", token])).toMatchObject({
      message: known,
      protocol: "bearer",
    });
    expect(await first("/open/socket?token=nonsense")).toMatchObject({ message: "open" });
    for (const [path, protocols] of [
      ["/closed/socket", []],
      ["/closed/socket?token=nonsense", []],
      ["/closed/socket", ["bearer", "nonsense"]],
      ["/closed/socket", [token]],
      ["/closed/socket", [token, "bearer"]],
    ] as const) {
      await expect(first(path, [...protocols])).rejects.toThrow("401");
    }
  });
});

it("answers Not found for an error of h3 without a message", async () => {
  const server = await withApp((app) => void app.mount("/inner", () => new Response("inner")));
  expect((await server.get("/inner//x", { custom: true })).body).toEqual({ success: false, error: "Not found" });
});

const withApp = (configureApp: Config["configureApp"], more: Config = {}): Promise<TestServer> =>
  startTestServer("in process", { config: { ...more, configureApp }, rows: testRows });

describe("configureApp", () => {
  it("refuses a custom route that a built-in one always hides, and names both", () => {
    expect(() => createServer({ configureApp: (app) => void app.get("/workflows/special", () => 1) })).toThrow(
      "configureApp: GET /workflows/special is unreachable: the built-in route GET /workflows/:id matches first",
    );
    expect(() => createServer({ configureApp: (app) => void app.on("HEAD", "/workflows", () => 1) })).toThrow(
      "HEAD /workflows is unreachable",
    );
    createServer({ configureApp: (app) => void app.all("/**", () => 1).get("/workflows/:id/**", () => 1) });
  });

  it("lets the host's error handler answer for custom routes only", async () => {
    const server = await withApp((app) => {
      app.config.onError = (error) => new Response(`mine ${error.status}`, { status: error.status });
      app.get("/x", () => {
        throw new Error("x");
      });
    });
    expect((await server.get("/x", { custom: true })).text).toBe("mine 500");
    expect((await server.get("/workflows/nope")).body.error).toBe("Workflow nope not found");
    const wrong = await server.request("/workflows", { method: "POST" });
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    const around = await withApp((app) => void (app.config.onError = () => new Response("mine")), {
      server: { cors: false },
    });
    expect((await around.get("/workflows/nope")).body.error).toBe("Workflow nope not found");
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("mine");
      },
      "configureApp: mine",
    ],
    [
      "returns a promise",
      async () => {
        throw new Error("late");
      },
      "configureApp: must be synchronous, but it returned a promise",
    ],
  ])("refuses a configureApp that %s", (_, configureApp, message) => {
    expect(() => createServer({ configureApp })).toThrow(message);
  });

  it("answers in the envelope when the host's error handler throws too", async () => {
    const server = await withApp((app) => {
      app.config.onError = () => {
        throw new Error("again");
      };
      app.get("/x", () => {
        throw new Error("x");
      });
    });
    expect((await server.get("/x", { custom: true })).body).toEqual({ success: false, error: "Internal server error" });
  });

  it("runs the host's middleware around built-in routes with cors: false, and ends preflights there", async () => {
    const own = { origin: ["http://a.test"], methods: ["POST" as const], preflight: { statusCode: 204 } };
    const server = await withApp(
      (app) =>
        void app.use((event) => {
          const done = handleCors(event, own);
          return done === false ? undefined : done;
        }),
      { server: { cors: false } },
    );
    const headers = { origin: "http://a.test" };
    for (const [path, status] of [
      ["/workflows", 200],
      ["/workflows/nope", 404],
      ["/test/boom", 500],
      ["/nope", 404],
    ] as const) {
      const answer = await server.get(path, { headers });
      expect([path, answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([
        path,
        status,
        "http://a.test",
      ]);
    }
    const bare = await withApp((app) => void app.all("/admin", () => "secret"), { server: { cors: false } });
    const forged = await bare.request("/admin", {
      method: "OPTIONS",
      headers: { ...headers, "access-control-request-method": "GET" },
    });
    expect([forged.status, forged.text]).toEqual([404, '{"success":false,"error":"Not found"}']);
    const preflight = await server.request("/test/echo", {
      method: "OPTIONS",
      headers: { ...headers, "access-control-request-method": "POST" },
    });
    expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, "http://a.test"]);
  });

  describe("with cors: false and a provider", () => {
    const origin = "http://a.test";
    const auth = jwtAuth({ secret, defaultPrivate: true, publicRoutes: ["GET /doc"] });
    const ran: string[] = [];
    const start = async (configureApp: Config["configureApp"]) => {
      const server = await withApp(configureApp, { auth, server: { cors: false } });
      ran.length = 0;
      return server;
    };
    const asking = { method: "OPTIONS", headers: { origin, "access-control-request-method": "GET" } };
    const shown = ({ status, body, headers }: Answer) => [
      status,
      body?.error,
      headers.get("www-authenticate"),
      headers.get("access-control-allow-origin"),
    ];
    const refused = [401, "Authentication required", "Bearer"];

    it("sends the host's cross-origin headers with a 401, however they were set", async () => {
      const server = await start((app) => {
        app.use((event) => void event.res.headers.set("access-control-allow-origin", origin));
        app.get("/mine", () => ran.push("mine"));
      });
      for (const path of ["/workflows", "/mine", "/nope"])
        expect(shown(await server.get(path, { custom: true }))).toEqual([...refused, origin]);
      expect(shown(await server.get("/nope", ada))).toEqual([404, "Not found", null, origin]);
      expect(ran).toEqual([]);
    });

    it("lets no middleware of the host replace a 401", async () => {
      const server = await start((app) => {
        app.use(async (event, next) => {
          try {
            return await next();
          } catch {
            event.res.headers.set("x-data", "secret");
            return { cached: "salary" };
          }
        });
        app.use((event) => (event.url.searchParams.has("early") ? { answered: "early" } : undefined));
      });
      for (const path of ["/workflows", "/workflows?early", "/nope"]) {
        const answer = await server.get(path, { custom: true });
        expect([...shown(answer), answer.headers.get("x-data")]).toEqual([...refused, null, null]);
      }
    });

    it("runs no middleware of a path, a group or a method for a refused caller", async () => {
      const server = await start((app) => {
        app.use("/admin/**", () => void ran.push("path"));
        app.use(() => void ran.push("method"), { method: "GET" });
        const group = new H3();
        group.use(() => void ran.push("group"));
        app.mount("/admin", group);
        app.use(() => void ran.push("global"));
        app.get("/admin/x", () => "x");
      });
      await server.get("/admin/x", { custom: true });
      await server.request("/admin/x", { ...asking, custom: true });
      expect(ran).toEqual(["global", "global"]);
      ran.length = 0;
      expect((await server.get("/admin/x", ada)).text).toBe("x");
      expect(ran).toEqual(["path", "method", "group", "global"]);
    });

    it("answers a preflight with only the cross-origin headers of the host's middleware", async () => {
      const server = await start((app) => {
        app.use((event) => {
          if (event.req.method !== "OPTIONS") return;
          event.res.headers.set("access-control-allow-origin", origin);
          event.res.headers.set("set-cookie", "a=b");
          return "a body";
        });
      });
      const { status, text, headers } = await server.request("/workflows", asking);
      expect([status, text, headers.get("access-control-allow-origin"), headers.get("set-cookie")]).toEqual([
        200,
        "",
        origin,
        null,
      ]);
      const bare = await start(() => {});
      expect(shown(await bare.request("/workflows", { ...asking, custom: true }))).toEqual([...refused, null]);
    });
  });
});
