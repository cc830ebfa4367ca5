import { HTTPError } from "h3";
import { expect, it } from "vitest";
import { createToken, jwtAuth, ServeError, type AuthProvider, type Config } from "agentserve";
import {
  bearer,
  expectReadable,
  gates,
  greeted,
  greeting,
  post,
  run,
  secret,
  token,
  workflows,
  type Failing,
} from "./fixtures.ts";
import { describeStage } from "./stage.ts";

const named = (friend: string): Config => ({
  workflows,
  auth: jwtAuth({ secret }),
  server: {
    cors: {
      origin: [friend],
      credentials: true,
      allowHeaders: ["authorization", "content-type"],
      exposeHeaders: ["www-authenticate", "allow", "x-shown"],
      maxAge: 600,
    },
  },
  configureApp(app) {
    app.get("/headers", () => new Response("", { headers: { "x-shown": "1", "x-hidden": "1" } }));
    app.get("/kept", () => new Response("kept", { headers: { "cache-control": "max-age=600" } }));
    app.get("/moved", (event) => Response.redirect(new URL("/workflows", event.req.url)));
    app.get("/teapot", () => {
      throw new HTTPError({ status: 418, message: "teapot" });
    });
    app.get("/conflict", () => {
      throw new ServeError(409, "Conflict here");
    });
    app.get("/crash", () => {
      throw new Error("a detail that nobody may see");
    });
    app.config.onError = ({ status }) => (status === 418 ? new Response("short and stout", { status }) : undefined);
  },
});
const expired = await createToken({ sub: "ada", exp: 1 }, secret);
const challenge = { "www-authenticate": "Bearer" };
const someId = { "x-execution-id": expect.any(String) };
const errors: Failing[] = [
  [401, "Authentication required", run, post({ input: {} }, {}), challenge],
  [401, "Invalid token: malformed", run, post({ input: {} }, bearer("x")), challenge],
  [401, "Token expired", run, post({ input: {} }, bearer(expired)), challenge],
  [400, "Invalid JSON body", run, post("{")],
  [400, "Input validation failed: ", run, post({ input: {} })],
  [404, "Workflow nope not found", "/workflows/nope/execute", post({ input: {} })],
  [404, "Not found", "/nope"],
  [405, "Method not allowed", "/workflows", { method: "DELETE" }, { allow: "GET, HEAD" }],
  [413, "Request body too large", run, post("x".repeat(3_000_000))],
  [415, "Content-Type must be application/json", run, post("x", { ...bearer(token), "content-type": "text/plain" })],
  [426, "Upgrade required", "/ws"],
  [500, "Failed to execute workflow", "/workflows/failing/execute", post({ input: {} }), someId],
  [409, "Conflict here", "/conflict"],
  [500, "Internal server error", "/crash"],
];

describeStage("cors with a named origin", named, (stage) => {
  it("lets a page of the named origin run a protected workflow, after one preflight without a token", async () => {
    const tab = await stage.visit(stage.friend);
    const read = await tab.read(stage.server + run, greeting);
    expect(read).toMatchObject({
      type: "cors",
      status: 200,
      body: { data: { result: { text: "Hello Bob", by: "ada" } } },
    });
    const [preflight, request] = stage.arrived;
    expect(stage.methods()).toEqual(["OPTIONS", "POST"]);
    expect(preflight!.headers).toMatchObject({ "access-control-request-headers": "authorization,content-type" });
    expect([preflight!.headers.authorization, request!.headers.authorization]).toEqual([undefined, `Bearer ${token}`]);
  });

  it("shows a page of the named origin the ids of request and execution, what the config exposes, and no other header", async () => {
    const tab = await stage.visit(stage.friend);
    const done = await tab.read(stage.server + run, greeting);
    const { executionId } = (done as { body: { data: { executionId: string } } }).body.data;
    const id = expect.stringMatching(/./);
    expect(done).toMatchObject({ headers: { "x-request-id": id, "x-execution-id": executionId } });
    const read = await tab.read(`${stage.server}/headers`);
    expect(read).toMatchObject({ headers: { "x-shown": "1", "x-request-id": id } });
    expect(read).not.toHaveProperty("headers.x-hidden");
  });

  it("lets a page of the named origin read a stream while it arrives", async () => {
    const tab = await stage.visit(stage.friend);
    const gate = `cors ${stage.target}`;
    const stream = await tab.stream(`${stage.server}/workflows/gated/stream`, post({ input: { gate } }));
    expect(await stream.until('"step-start"')).not.toContain('"step-complete"');
    gates.open(gate);
    expect(await stream.until('"workflow-result"')).toContain('"step-complete"');
  });

  it("lets a page of the server's own origin run a protected workflow, without a preflight", async () => {
    const tab = await stage.visit(`${stage.server}/doc`);
    stage.arrived.length = 0;
    expect(await tab.read(run, greeting)).toMatchObject({ type: "basic", status: 200 });
    expect(stage.methods()).toEqual(["POST"]);
  });

  it("lets a page of the named origin follow a redirect of the host", async () => {
    const tab = await stage.visit(stage.friend);
    const read = await tab.read(`${stage.server}/moved`, { credentials: "include" });
    expect(read).toMatchObject({ status: 200, body: { success: true } });
  });

  it("lets a page of the named origin read status, message and headers of every error", async () => {
    const tab = await stage.visit(stage.friend);
    await expectReadable(tab, stage.server, errors);
  });

  it("lets a page of the named origin read the answer of the host's error handler", async () => {
    const tab = await stage.visit(stage.friend);
    expect(await tab.read(`${stage.server}/teapot`)).toMatchObject({ status: 418, body: "short and stout" });
  });

  it("lets a page of the named origin send twice after one preflight", async () => {
    const tab = await stage.visit(stage.friend);
    for (const _ of [1, 2]) await tab.read(stage.server + run, greeting);
    expect(stage.methods()).toEqual(["OPTIONS", "POST", "POST"]);
  });

  it("lets a page of the named origin send no header that the config does not name", async () => {
    const tab = await stage.visit(stage.friend);
    const read = await tab.read(`${stage.server}/workflows`, { headers: { "x-other": "1" } });
    expect(read).toEqual({ blocked: "HeaderDisallowedByPreflightResponse" });
    expect(stage.methods()).toEqual(["OPTIONS"]);
  });

  // The sandbox takes the page's origin away: it asks as "null".
  it.each<["stranger" | "friend", string]>([
    ["stranger", "/"],
    ["friend", "/sandboxed"],
  ])("stops a request with a token at its preflight, for the page of a %s under %s", async (who, path) => {
    const tab = await stage.visit(stage[who] + path);
    greeted.length = 0;
    const read = await tab.read(stage.server + run, greeting);
    expect(read).toEqual({ blocked: "PreflightMissingAllowOriginHeader" });
    expect(stage.methods()).toEqual(["OPTIONS"]);
    expect(greeted).toEqual([]);
  });

  it("shows a stranger nothing of a request that needs no preflight", async () => {
    const tab = await stage.visit(stage.stranger);
    const paths = ["/workflows", "/nope", "/headers", "/crash"];
    for (const path of paths) {
      expect(await tab.read(stage.server + path)).toEqual({ blocked: "MissingAllowOriginHeader" });
      const opaque = await tab.read(stage.server + path, { mode: "no-cors" });
      expect(opaque).toEqual({ type: "opaque", status: 0, headers: {}, body: "" });
    }
    expect(stage.arrived.map(({ method, url }) => `${method} ${url}`)).toEqual(
      paths.flatMap((path) => [`GET ${path}`, `GET ${path}`]),
    );
  });

  it("answers the named origin although the browser cached a stranger's request", async () => {
    const tab = await stage.visit(stage.stranger);
    await tab.read(`${stage.server}/kept`, { mode: "no-cors" });
    await tab.page.goto(stage.friend);
    for (const _ of [1, 2]) expect(await tab.read(`${stage.server}/kept`)).toMatchObject({ status: 200, body: "kept" });
    expect(stage.methods()).toEqual(["GET", "GET"]);
  });
});

/** The methods of the requests that a provider was asked about. */
const asked: string[] = [];
const watching: AuthProvider = {
  type: "watching",
  defaultPrivate: true,
  publicRoutes: ["GET /doc"], // the harness reads it
  extractToken(request) {
    asked.push(request.method);
    return request.headers.get("authorization") ?? undefined;
  },
  verifyToken: (value) => ({ id: value }),
};
const closed = (friend: string): Config => ({
  workflows,
  auth: watching,
  server: { cors: { origin: friend, maxAge: 0 } },
});

describeStage("a preflight", closed, (stage) => {
  it("answers a preflight without asking the provider, where all is private", async () => {
    const tab = await stage.visit(stage.friend);
    asked.length = 0;
    const headers = { authorization: "ada" };
    expect(await tab.read(`${stage.server}/workflows`, { headers })).toMatchObject({ status: 200 });
    expect(stage.methods()).toEqual(["OPTIONS", "GET"]);
    expect(asked).toEqual(["GET"]);
  });

  it("gets a preflight before every request when maxAge is 0", async () => {
    const tab = await stage.visit(stage.friend);
    for (const _ of [1, 2]) await tab.read(`${stage.server}/workflows`, { headers: { authorization: "ada" } });
    expect(stage.methods()).toEqual(["OPTIONS", "GET", "OPTIONS", "GET"]);
  });
});

describeStage(
  "cors omitted",
  () => ({ workflows, auth: jwtAuth({ secret }) }),
  (stage) => {
    it("lets a page of any origin send a token and read answers and errors if cors is omitted", async () => {
      const tab = await stage.visit(stage.stranger);
      const url = stage.server + run;
      const read = await tab.read(url, { ...greeting, credentials: "omit" });
      expect(read).toMatchObject({ status: 200, headers: { "x-execution-id": expect.any(String) } });
      const refused = await tab.read(url, { ...post({}, {}), credentials: "omit" });
      expect(refused).toMatchObject({ status: 401, body: { error: "Authentication required" } });
    });

    it("lets no page send cookies and read the answer if cors is omitted", async () => {
      const tab = await stage.visit(stage.friend);
      greeted.length = 0;
      expect(await tab.read(`${stage.server}/workflows`, { credentials: "include" })).toEqual({
        blocked: "WildcardOriginNotAllowed",
      });
      expect(await tab.read(stage.server + run, greeting)).toEqual({
        blocked: "PreflightWildcardOriginNotAllowed",
      });
      expect(greeted).toEqual([]);
    });
  },
);
