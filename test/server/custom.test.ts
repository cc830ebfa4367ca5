import { H3, HTTPError, handleCors } from "h3";
import { describe, expect, it } from "vitest";
import { createServer, ServeError, type Config } from "agentserve";
import { testRows } from "../harness/rows.ts";
import { describeServer, startServer } from "../harness/server.ts";

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

describeServer("configureApp", { config, rows: testRows }, (server) => {
  it("adds routes beside the built-in ones", async () => {
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
  ])("answers in the envelope to what a route throws: %s", async (path, status, error) => {
    const answer = await server.get(path, { custom: true });
    expect([answer.status, answer.body]).toEqual([status, { success: false, error }]);
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  });

  it("keeps the headers of what a route throws", async () => {
    expect((await server.get("/locked", { custom: true })).headers.get("www-authenticate")).toBe("Basic");
    expect((await server.get("/conflict", { custom: true })).headers.get("retry-after")).toBe("1");
  });

  it("bounds bodies that a custom route reads", async () => {
    const answer = await server.post("/hook", { x: "y".repeat(1_000) }, { custom: true });
    expect([answer.status, answer.body]).toEqual([413, { success: false, error: "Request body too large" }]);
  });
});

describe("configureApp", () => {
  const withApp = (configureApp: Config["configureApp"], more: Config = {}) =>
    startServer("in process", { config: { ...more, configureApp }, rows: testRows });

  it("refuses, with both names, a route that a built-in one always hides", () => {
    expect(() => createServer({ configureApp: (app) => void app.get("/workflows/special", () => 1) })).toThrow(
      "configureApp: GET /workflows/special can never be reached: GET /workflows/:id is built in",
    );
    createServer({ configureApp: (app) => void app.all("/**", () => 1).get("/workflows/:id/**", () => 1) });
  });

  it("lets the host's own error handler answer, for its own routes only", async () => {
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
    await server.close();
    const around = await withApp((app) => void (app.config.onError = () => new Response("mine")), {
      server: { cors: false },
    });
    expect((await around.get("/workflows/nope")).body.error).toBe("Workflow nope not found");
    await around.close();
  });

  it.each([
    [
      "that throws",
      () => {
        throw new Error("mine");
      },
      "configureApp: mine",
    ],
    [
      "that returns a promise",
      async () => {
        throw new Error("late");
      },
      "configureApp: returned a promise",
    ],
  ])("refuses a function %s", (_, configureApp, message) => {
    expect(() => createServer({ configureApp })).toThrow(message);
  });

  it("refuses a HEAD route that GET of a built-in one hides", () => {
    expect(() => createServer({ configureApp: (app) => void app.on("HEAD", "/workflows", () => 1) })).toThrow(
      "HEAD /workflows can never be reached",
    );
  });

  it("answers in the envelope when that handler throws too", async () => {
    const server = await withApp((app) => {
      app.config.onError = () => {
        throw new Error("again");
      };
      app.get("/x", () => {
        throw new Error("x");
      });
    });
    expect((await server.get("/x", { custom: true })).body).toEqual({ success: false, error: "Internal server error" });
    await server.close();
  });

  it("takes a not-found route of the host's", async () => {
    const server = await withApp((app) => void app.all("/**", () => new Response("no such page", { status: 404 })));
    expect((await server.get("/nope", { custom: true })).text).toBe("no such page");
    expect((await server.get("/workflows")).status).toBe(200);
    await server.close();
  });

  it("with cors: false runs the host's middleware around built-in routes, and preflights end there", async () => {
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
    await bare.close();
    const preflight = await server.request("/test/echo", {
      method: "OPTIONS",
      headers: { ...headers, "access-control-request-method": "POST" },
    });
    expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, "http://a.test"]);
    await server.close();
  });
});
