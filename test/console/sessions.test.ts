import { describe, expect, it, onTestFinished } from "vitest";
import { defineAgent, defineWorkflow, jwtAuth, workflowTool, type Config } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";
import { chosenBackend } from "../harness/backends.ts";
import { createClient } from "../harness/client.ts";
import { createTestLogger, openSocket } from "../harness/server.ts";
import { openConsole } from "./world.ts";

const secret = "a secret of at least thirty-two bytes";
const auth = jwtAuth({ secret, defaultPrivate: true, webSockets: true, ownership: true });
const exchange = "/console/api/session";
const used = "This link has been used or is not valid: open the newest one that agentserve dev has printed";

describe("the link of the console", () => {
  it("the console link is exchanged once for a session, and its use makes the next link", async () => {
    const { ask, server } = await openConsole({ auth });
    const first = server.sessions!.link!;
    expect(first).toMatch(/^[\w-]{22}$/); // 128 bits in base64url
    const { status, body, headers } = await ask(exchange, { json: { token: first } });
    expect([status, headers["cache-control"]]).toEqual([200, "no-store"]);
    const { token } = body.data;
    expect(token).toMatch(/^[\w-]{22}$/);
    const second = server.sessions!.link!;
    expect(new Set([first, second, token]).size).toBe(3);
    const refused = await ask(exchange, { json: { token: first } });
    expect(refused).toMatchObject({ status: 401, headers: { "www-authenticate": "Bearer" }, body: { error: used } });
    expect((await ask(exchange, { json: { token: second } })).status).toBe(200);
    // The session of the first link is still there.
    expect((await ask("/console/session", { headers: { authorization: `Bearer ${token}` } })).status).toBe(200);
  });

  it("the console link opens one session if it is used many times at once", async () => {
    const { ask, server } = await openConsole({ auth });
    const json = { token: server.sessions!.link };
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(exchange, { json })));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  it.each<[string, unknown]>([
    ["another token", { token: "A".repeat(22) }],
    ["an empty token", { token: "" }],
    ["a long token", { token: "A".repeat(100_000) }],
    ["a token that is not ASCII", { token: "é".repeat(22) }],
  ])("the console refuses %s as its link with 401, and keeps the link", async (_, json) => {
    const { ask, server } = await openConsole({ auth });
    const before = server.sessions!.link;
    expect(await ask(exchange, { json })).toMatchObject({ status: 401, body: { error: used } });
    expect(server.sessions!.link).toBe(before); // a guess does not use it up
  });

  it.each<[string, unknown]>([
    ["no token", {}],
    ["a number as the token", { token: 5 }],
    ["a list as the token", { token: ["x"] }],
    ["an array in place of an object", []],
  ])("the console answers 400 to a sign-in whose body has %s", async (_, json) => {
    const { ask } = await openConsole({ auth });
    expect((await ask(exchange, { json })).status).toBe(400);
  });

  it("the console link and a session are valid in one process only", async () => {
    const [one, other] = [await openConsole({ auth }), await openConsole({ auth })];
    const refused = await other.ask(exchange, { json: { token: one.server.sessions!.link } });
    expect(refused.status).toBe(401);
    const headers = await one.signIn();
    expect((await one.ask("/agents", { headers })).status).toBe(200);
    expect((await other.ask("/agents", { headers })).status).toBe(401);
  });

  it("start has no console link", async () => {
    const { ask, server } = await openConsole({ auth, console: true }, { mode: "start" });
    expect(server.sessions).toBeUndefined();
    expect((await ask(exchange, { json: { token: "A".repeat(22) } })).status).toBe(401); // as any other path
    const open = await openConsole({ console: true }, { mode: "start" });
    for (const path of [exchange, "/console/api/problem", "/console/api/routes"])
      expect([path, (await open.ask(path)).status]).toEqual([path, 404]);
  });

  it("dev has a console but no console link on an address that others can reach", async () => {
    const { ask, server } = await openConsole({}, { host: "0.0.0.0" });
    expect(server.sessions).toBeUndefined();
    for (const path of [exchange, "/console/api/problem", "/console/api/routes"])
      expect([path, (await ask(path)).status]).toEqual([path, 404]);
    expect((await ask("/console")).status).toBe(200);
    expect((await ask("/console/session")).body.data).toMatchObject({ mode: "dev", isSignedInByLink: false });
  });

  it("the console link ends when the server listens on an address that others can reach", async () => {
    const logger = createTestLogger([]);
    const server = openServer(toProject({ backend: chosenBackend.create() }), { mode: "dev", logger });
    onTestFinished(() => server.close());
    const link = server.sessions!.link!;
    const { port } = await server.listen({ port: 0, host: "0.0.0.0" });
    expect(server.sessions!.link).toBeUndefined();
    const init = {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token: link }),
    };
    expect((await fetch(`http://127.0.0.1:${port}${exchange}`, init)).status).toBe(401);
  });
});

describe("sessions of the console", () => {
  it("the console has at most 100 sessions, and ends the oldest one", async () => {
    const { ask, signIn } = await openConsole({ auth });
    const sessions: { authorization: string }[] = [];
    for (let n = 0; n < 101; n++) sessions.push(await signIn());
    const statuses = await Promise.all(
      [0, 1, 50, 100].map(async (n) => (await ask("/agents", { headers: sessions[n]! })).status),
    );
    expect(statuses).toEqual([401, 200, 200, 200]);
  });

  it("console sessions survive a reload of the config, also one that turns the console off for a time", async () => {
    const { ask, signIn, server } = await openConsole({ auth });
    const headers = await signIn();
    const swap = (config: Config) => server.swap(toProject({ backend: chosenBackend.create(), ...config }));
    swap({ auth, console: false });
    expect((await ask("/agents", { headers })).status).toBe(401); // without a console, there is no session of it
    expect((await ask(exchange, { json: { token: server.sessions!.link } })).status).toBe(401);
    swap({ auth });
    expect((await ask("/agents", { headers })).status).toBe(200);
  });

  it("console sessions are read from the header, never from the query or a cookie", async () => {
    const { ask, signIn } = await openConsole({ auth });
    const { authorization } = await signIn();
    const token = authorization.slice(7);
    const statusOf = async (path: string, headers: Record<string, string> = {}) =>
      (await ask(path, { headers })).status;
    for (const path of ["/agents", "/console/session", "/console/api/problem"]) {
      expect([path, await statusOf(`${path}?token=${token}`)]).toEqual([path, 401]);
      expect([path, await statusOf(`${path}?t=${token}`, { cookie: `token=${token}` })]).toEqual([path, 401]);
      expect([path, await statusOf(path, { authorization: `Basic ${token}` })]).toEqual([path, 401]);
      expect([path, await statusOf(path, { authorization: `Bearer ${token} ` })]).toEqual([path, 200]);
      expect([path, await statusOf(path, { authorization: `bearer ${token}` })]).toEqual([path, 200]);
      expect([path, await statusOf(path, { authorization: `Bearer ${token}, Bearer x` })]).toEqual([path, 401]);
      expect([path, await statusOf(path, { authorization: `Bearer ${token}x` })]).toEqual([path, 401]);
    }
  });

  it("console sessions open WebSockets, but not for a page of another origin", async () => {
    const { url, signIn } = await openConsole({ auth });
    const { authorization } = await signIn();
    const token = authorization.slice(7);
    const at = `${url.replace("http", "ws")}/ws/logs`;
    const open = async (path: string, options = {}) => {
      const socket = await openSocket(path, options).catch((error: { status: number }) => error.status);
      if (typeof socket === "number") return socket;
      expect(await socket.next()).toMatchObject({ success: true });
      socket.close();
      return 101;
    };
    expect(await open(at)).toBe(401);
    expect(await open(at, { protocols: ["bearer", token] })).toBe(101);
    expect(await open(at, { headers: { authorization } })).toBe(101);
    expect(await open(`${at}?token=${token}`)).toBe(101);
    expect(await open(at, { protocols: ["bearer", `${token}x`] })).toBe(401);
    expect(await open(at, { protocols: ["bearer", token], origin: url })).toBe(101);
    for (const origin of ["http://evil.test", "null", "http://127.0.0.1:1", "file://"])
      expect([origin, await open(at, { protocols: ["bearer", token], origin })]).toEqual([origin, 403]);
  });

  it("console sessions take precedence over a cookie that a provider reads", async () => {
    const cookies = {
      type: "cookie",
      defaultPrivate: true,
      webSockets: true,
      extractToken: ({ headers }: Request) => /session=(\w+)/.exec(headers.get("cookie") ?? "")?.[1],
      verifyToken: () => ({ id: "ada" }),
    };
    const { ask, signIn, url } = await openConsole({ auth: cookies });
    const headers = await signIn();
    expect((await ask("/console/session", { headers })).body.data.user).toEqual({ id: "console" });
    expect((await ask("/console/session", { headers: { cookie: "session=x" } })).body.data.user).toEqual({ id: "ada" });
    const socket = await openSocket(`${url.replace("http", "ws")}/ws`, {
      protocols: ["bearer", headers.authorization.slice(7)],
    });
    socket.close();
  });
});

describe("GET /console/session", () => {
  const data = { canAct: true, readOnly: false, mode: "dev", version: expect.stringMatching(/^\d+\.\d+\.\d+/) };

  it("GET /console/session says who asks, and whether they may act", async () => {
    const { ask, signIn } = await openConsole({ auth });
    expect((await ask("/console/session")).status).toBe(401);
    const session = await ask("/console/session", { headers: await signIn() });
    expect(session.body.data).toEqual({ ...data, user: { id: "console" }, isSignedInByLink: true, auth: true });
    expect(session.headers["cache-control"]).toBe("private, no-store");
  });

  it("GET /console/session asks for no token without a provider, where a session changes no caller", async () => {
    const seen: unknown[] = [];
    const who = defineWorkflow({ id: "who" }).andThen({
      id: "only",
      execute: ({ context }) => void seen.push(context.get("userId") ?? null),
    });
    const { ask, signIn } = await openConsole({ workflows: [who] });
    const anonymous = await ask("/console/session");
    expect(anonymous.body.data).toEqual({ ...data, user: null, isSignedInByLink: false, auth: false });
    expect(anonymous.headers["cache-control"]).toBe("no-store");
    const headers = await signIn();
    const session = await ask("/console/session", { headers });
    expect(session.body.data).toEqual({ ...data, user: null, isSignedInByLink: true, auth: false });
    await ask("/workflows/who/execute", { headers, json: { input: {} } });
    await ask("/workflows/who/execute", { headers, json: { input: {}, options: { userId: "ada" } } });
    expect(seen).toEqual([null, "ada"]);
    expect((await ask("/console/api/problem")).status).toBe(401);
    expect((await ask("/console/api/problem", { headers })).status).toBe(200);
  });
});

describe("/console/api", () => {
  it("/console/api answers as /doc says", async () => {
    const { ask, url, server } = await openConsole({
      agents: [defineAgent({ id: "a", instructions: "", model: echoModel() })],
    });
    const send = (path: string, init: RequestInit) => fetch(url + path, init);
    const client = createClient(send, (await ask("/doc")).body);
    expect((await client.post(exchange, { token: "wrong" })).status).toBe(401);
    const { body } = await client.post(exchange, { token: server.sessions!.link });
    const headers = { authorization: `Bearer ${body.data.token}` };
    expect((await client.get("/console/api/problem")).status).toBe(401);
    expect((await client.get("/console/api/problem", { headers })).body.data).toEqual({ problem: null });
    expect((await client.get("/console/session", { headers })).status).toBe(200);
    expect((await client.get("/console/api/routes", { headers })).status).toBe(200);
  });

  it("/console/api/problem shows the error of the last save, without the colours of the terminal", async () => {
    const { ask, signIn, server } = await openConsole({ auth });
    const headers = await signIn();
    const since = "2026-11-15T13:47:45.000Z";
    server.complain({
      message: "a.ts: \u001b[31mno\u001b[39m",
      hint: "write `}`",
      frame: "\u001b[2m> 4 |\u001b[22m x",
      since,
    });
    const { body } = await ask("/console/api/problem", { headers });
    expect(body.data).toEqual({ problem: { message: "a.ts: no", hint: "write `}`", frame: "> 4 | x", since } });
    server.complain({ message: "short", since });
    expect((await ask("/console/api/problem", { headers })).body.data).toEqual({
      problem: { message: "short", since },
    });
  });

  it("/console/api/routes lists the routes of the served version, with those of the host", async () => {
    const { ask, signIn, server } = await openConsole({ auth, configureApp: (app) => void app.get("/hello", () => 1) });
    const headers = await signIn();
    const list = async () => (await ask("/console/api/routes", { headers })).body.data.routes;
    const routes = await list();
    expect(routes).toHaveLength(server.routes().length);
    expect(routes).toContainEqual({
      method: "GET",
      path: "/hello",
      access: "protected",
      why: "opt-out mode",
      except: [],
      action: null,
      isCustom: true,
    });
    expect(routes).toContainEqual({
      method: "GET",
      path: "/console/session",
      access: "protected",
      why: "protected by default",
      except: [],
      action: "console.view",
      isCustom: false,
    });
    const next: Config = { auth, configureApp: (app) => void app.get("/new", () => 1) };
    server.swap(toProject({ backend: chosenBackend.create(), ...next }));
    expect((await list()).map(({ path }: { path: string }) => path)).toContain("/new");
  });

  it("/console/api needs a session: a token of the provider is not one", async () => {
    const trusting = { type: "trusting", verifyToken: (token: string) => ({ id: token }) };
    const { ask } = await openConsole({ auth: trusting });
    const headers = { authorization: "Bearer ada" };
    expect((await ask("/console/session", { headers })).status).toBe(200);
    for (const path of ["/console/api/problem", "/console/api/routes"]) {
      expect(await ask(path, { headers })).toMatchObject({
        status: 401,
        body: { error: expect.stringMatching(/^A session of the console is required/) },
      });
    }
  });
});

it.each(["with", "without"])(
  "an agent uses its tools for the console, whatever authorize says, %s a conversation",
  async (stored) => {
    const pay = defineWorkflow({ id: "pay", input: v.object({}) }).andThen({ id: "only", execute: () => "paid" });
    const model = scriptedModel([{ toolCalls: [{ toolName: "pay", input: {} }] }, "Done"]);
    const tools = { pay: workflowTool("pay", { description: "Pays" }) };
    const agent = defineAgent({ id: "a", instructions: "", model, tools });
    const { ask, signIn } = await openConsole({ auth, agents: [agent], workflows: [pay], authorize: () => false });
    const options = stored === "with" ? { conversationId: "c" } : {};
    const { status, text } = await ask("/agents/a/text", { headers: await signIn(), json: { input: "Pay", options } });
    expect([status, text]).toEqual([200, expect.stringContaining('"paid"')]);
  },
);
