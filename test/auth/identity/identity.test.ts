// Each of these changes makes tests of this file fail: a client's `context.user`, `context.userId` or `options.userId` that
// counts beside a provider; the user in `state.context`; a user that requests share and can change; a payload that mapUser
// changed, kept for the next request; a resumer who becomes the user; a token, a host name or a provider's fault in an answer.
import { createToken, jwtAuth, ServeError, type AuthProvider } from "agentserve";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { Answer } from "../../harness/client.ts";
import { describeServer, startServer, type TestServer } from "../../harness/server.ts";
import { careless, spoilt } from "./spoiler.ts";
import {
  agentPlaces,
  agentWays,
  as,
  base,
  bearer,
  idOf,
  places,
  secret,
  seen,
  toBody,
  tokens,
  tourPlaces,
  userOf,
  type AgentWay,
  type Name,
} from "./witness.ts";

beforeEach(() => void seen.splice(0));

/** All that was seen since the last look was seen of this caller. */
function expectSeen(who: Name | undefined, where: readonly string[]): void {
  expect(places()).toEqual(where);
  const user = who && userOf(who);
  const userId = who && idOf(who);
  for (const { resumedBy: _, ...sight } of seen.splice(0)) {
    expect(sight).toEqual({ where: sight.where, user, userId, inMap: userId });
  }
}

/** On a busy machine a schema is not looked at in time, and the client is asked to come again. */
async function patiently(toAnswer: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    seen.splice(0);
    const answer = await toAnswer();
    if (answer.status !== 503) return answer;
  }
}

const ways = agentWays.map((way) => `/agents/witness/${way}`);
const wayOf = (path: string): AgentWay => path.split("/").at(-1) as AgentWay;

describeServer(
  "the authenticated user",
  { config: { ...base, auth: jwtAuth({ secret }) }, only: ["start"] },
  (server) => {
    it.each(ways)("the authenticated user reaches hooks, tools and instructions of an agent: %s", async (path) => {
      const { status } = await patiently(() => server.post(path, toBody(wayOf(path)), as("ada")));
      expect(status).toBe(200);
      expectSeen("ada", agentPlaces);
    });

    it("the authenticated user reaches the hook onError", async () => {
      expect((await server.post("/agents/failing/text", { input: "x" }, as("ada"))).status).toBe(502);
      expectSeen("ada", ["instructions", "onError"]);
    });

    it.each(["execute", "stream"])(
      "the authenticated user reaches every step of a workflow, and its agents: %s",
      async (way) => {
        const { status } = await server.post(`/workflows/tour/${way}`, { input: {} }, as("ada"));
        expect(status).toBe(200);
        expectSeen("ada", tourPlaces);
      },
    );

    it("the user of an execution is the one who started it, also after another user has resumed it", async () => {
      const begun = await server.post("/workflows/tour/execute", { input: { wait: true } }, as("ada"));
      const path = `/workflows/tour/executions/${begun.body.data.executionId}`;
      seen.splice(0);
      const done = await server.post(`${path}/resume`, { resumeData: 1 }, as("bob"));
      expect(done.body.data.result).toEqual({ user: userOf("ada") });
      expect(seen[0]).toMatchObject({ where: "person", resumedBy: { user: userOf("bob"), userId: "bob" } });
      expectSeen("ada", [...agentPlaces, "last", "person"].toSorted());
    });

    it("an open route has no user without a token, and with an invalid one", async () => {
      for (const headers of [{}, bearer("no.good.token"), { authorization: "Basic YWRhOmFkYQ==" }])
        expect((await server.get("/me", { headers, custom: true })).body).toEqual({ user: null });
    });

    it.each(["/me", "/people/1/a/b", "/inside/me"])(
      "the authenticated user reaches the custom route %s and its middleware",
      async (path) => {
        for (const name of ["ada", "bob", "faceless"] as const) {
          const { body, headers } = await server.get(path, { ...as(name), custom: true });
          expect([body.user, JSON.parse(headers.get("x-user")!)]).toEqual([userOf(name), userOf(name)]);
        }
        const head = await server.request(path, { method: "HEAD", ...as("ada"), custom: true });
        expect(JSON.parse(head.headers.get("x-user")!)).toEqual(userOf("ada"));
      },
    );

    it("a user without an id reaches agents and workflows", async () => {
      await server.post("/agents/witness/text", { input: "look", options: { userId: "ada" } }, as("faceless"));
      expectSeen("faceless", agentPlaces);
      const { body } = await server.post("/workflows/tour/execute", { input: {} }, as("faceless"));
      expect(body.data.result).toEqual({ user: userOf("faceless") });
      expectSeen("faceless", tourPlaces);
    });
  },
);

describeServer(
  "the user of a WebSocket",
  { config: { ...base, auth: jwtAuth({ secret }) }, only: ["dev", "start"] },
  (server) => {
    it.each([
      ["a header", "/live", { headers: bearer(tokens.ada) }, userOf("ada")],
      ["a protocol", "/live", { protocols: ["bearer", tokens.ada] }, userOf("ada")],
      ["the query", `/live?token=${tokens.ada}`, {}, userOf("ada")],
      ["claims without a token", "/live?user=ada&userId=ada", { headers: { "x-user-id": "ada" } }, null],
      ["a bad token", "/live?token=no.good.token", {}, null],
    ])("gives a custom WebSocket route the user of %s", async (_, path, options, user) => {
      const socket = await server.socket(path, options);
      expect(await socket.next()).toEqual({ user, ofPeer: user });
      socket.ws.terminate();
    });
  },
);

describe("with cors: false", () => {
  it("the user reaches custom and built-in routes inside the host's middleware", async () => {
    const server = await startServer("start", {
      config: { ...base, auth: jwtAuth({ secret }), server: { cors: false } },
    });
    const { body, headers } = await server.get("/me", { ...as("ada"), custom: true });
    expect([body.user, JSON.parse(headers.get("x-user")!)]).toEqual([userOf("ada"), userOf("ada")]);
    await server.post("/agents/witness/text", { input: "look", options: { userId: "bob" } }, as("ada"));
    expectSeen("ada", agentPlaces);
    await server.close();
  });
});

// What clients say about themselves.

/** Knows its tokens, and maps them by itself. */
const keys: AuthProvider = {
  type: "keys",
  extractToken: ({ headers }) => headers.get("authorization")?.slice("Bearer ".length),
  async verifyToken(token) {
    const name = (Object.keys(tokens) as Name[]).find((one) => tokens[one] === token);
    if (!name) throw new Error("unknown key");
    return userOf(name);
  },
};
const publicRoutes = ["GET /doc"]; // the test client reads it
const opened = [...publicRoutes, "POST /agents/*", "POST /workflows/*", "POST /me"];
const toUser = (payload: { sub?: string }) => ({ ...payload, id: payload.sub });
const modes: [title: string, auth: AuthProvider, isOpen: (path: string) => boolean][] = [
  ["opt-in mode", jwtAuth({ secret }), (path) => path.endsWith("/resume") || path === "/me"],
  ["opt-out mode", jwtAuth({ secret, defaultPrivate: true, publicRoutes, mapUser: toUser }), () => false],
  ["opt-in mode, with what publicRoutes opens", jwtAuth({ secret, publicRoutes: opened }), () => true],
  ["opt-out mode, with what publicRoutes opens", { ...keys, defaultPrivate: true, publicRoutes: opened }, () => true],
];
const callers = {
  nobody: [{}, undefined],
  "a bad token": [bearer(`${tokens.ada.slice(0, -4)}AAAA`), undefined],
  "no id": [bearer(tokens.faceless), "faceless"],
  somebody: [bearer(tokens.bob), "bob"],
} as const satisfies Record<string, readonly [object, Name | undefined]>;

/** What a client may say about itself. It is text: keys twice, keys in escapes and `__proto__` do not survive an object. */
const ada = '{"id":"ada","sub":"ada","user":{"id":"ada"},"userId":"ada"}';
const claims = `"user":${ada},"\\u0075ser":"ada","authenticatedUser":${ada},"__proto__":${ada},"constructor":{"prototype":${ada}}`;
const toClaims = (needed: object): string =>
  `{${claims},${JSON.stringify(needed).slice(1, -1)},"caller":${ada},"identity":${ada},"userId":"ada",
    "context":{${claims},"userId":"ada"},
    "options":{${claims},"userId":"ada","context":{${claims},"userId":"ada","\\u0075serId":"ada","id":"ada"}}}`;
const claimedQuery = `user=ada&userId=ada&authenticatedUser=ada&user=${encodeURIComponent(ada)}&context[user]=ada&options.userId=ada&__proto__[userId]=ada&token=none`;
const claimedHeaders = {
  ...Object.fromEntries(["x-user", "x-authenticated-user", "authenticateduser"].map((name) => [name, ada])),
  ...Object.fromEntries(
    ["x-user-id", "user-id", "userid", "remote-user", "x-forwarded-user"].map((name) => [name, "ada"]),
  ),
  "x-middleware-subrequest": "auth",
  "x-original-url": "/me?userId=ada",
  cookie: "userId=ada; user=ada; token=ada",
};
const bodies: Record<string, object> = {
  ...Object.fromEntries(agentWays.map((way) => [`/agents/witness/${way}`, toBody(way)])),
  "/workflows/tour/execute": { input: {} },
  "/workflows/tour/stream": { input: {} },
  "/workflows/tour/executions/:id/resume": { resumeData: { user: "ada", userId: "ada" } },
  "/me": { note: 1 },
};

describe.each(modes)("in %s", (_, auth, isOpen) => {
  describeServer("claims of a client", { config: { ...base, auth }, only: ["in process"] }, (server) => {
    it.each(Object.keys(bodies))("takes no user of a request to %s from its body, query or headers", async (route) => {
      for (const [credentials, name] of Object.values(callers)) {
        const begins = name ?? (isOpen("/workflows/tour/execute") ? undefined : "bob");
        const path = route.replace(":id", route.includes(":id") ? await beginTour(server, begins) : "");
        const headers = { ...claimedHeaders, ...credentials, "content-type": "application/json" };
        const init = { method: "POST", body: toClaims(bodies[route]!), headers, custom: path === "/me" };
        const answer = await patiently(() => server.request(`${path}?${claimedQuery}`, init));
        expect(Reflect.get({}, "user")).toBeUndefined();
        if (name === undefined && !isOpen(path)) expect([answer.status, seen]).toEqual([401, []]);
        else if (path === "/me") expect(answer.body).toEqual({ user: name ? userOf(name) : null });
        else await expectUser(server, answer, name, begins);
      }
    });
  });
});

async function beginTour(server: TestServer, name: Name | undefined): Promise<string> {
  const body = { input: { wait: true }, options: { userId: "ada", context: { user: "ada", userId: "ada" } } };
  return (await server.post("/workflows/tour/execute", body, name && as(name))).body.data.executionId;
}

/** Expects that the code behind this answer has seen its caller and, if that was another one, who began the execution. */
async function expectUser(server: TestServer, answer: Answer, name: Name | undefined, begins: Name | undefined) {
  expect(answer.status).toBe(200);
  const id = answer.headers.get("x-execution-id");
  if (id === null) return expectSeen(name, agentPlaces);
  const isResumed = seen[0]!.where === "person";
  if (isResumed) expect(seen[0]!.resumedBy).toEqual(name && { user: userOf(name), userId: idOf(name) });
  expectSeen(isResumed ? begins : name, isResumed ? [...agentPlaces, "last", "person"].toSorted() : tourPlaces);
  await expectStored(server, id, isResumed ? begins : name);
}

/** What `state` and the list say of whoever began an execution: the id, and nothing else. */
async function expectStored(server: TestServer, id: string, name: Name | undefined): Promise<void> {
  const state = (await server.get(`/workflows/tour/executions/${id}/state`, as("carol"))).body.data;
  const [item] = (await server.get("/workflows/tour/executions?limit=1", as("carol"))).body.data.items;
  expect(item).toEqual(state);
  expect(state.context.userId).toBe(name && idOf(name));
  expect(Object.keys(state.context)).not.toContain("user");
  const userId = name && idOf(name);
  expect("userId" in state.context).toBe(userId !== undefined);
  if (name) expect(JSON.stringify(state.context)).not.toContain(userOf(name)["email"]);
}

describe("without a provider", () => {
  it("takes options.userId for the user if there is no provider", async () => {
    const server = await startServer("in process", { config: base });
    onTestFinished(() => server.close());
    const options = { userId: "ada", context: { userId: "bob", note: 1 } };
    await server.post("/agents/witness/text", { input: "look", options });
    expect(places()).toEqual(agentPlaces);
    for (const sight of seen.splice(0)) expect(sight).toMatchObject({ user: undefined, userId: "ada", inMap: "ada" });
    const { body } = await server.post("/workflows/tour/execute", { input: {}, options });
    for (const sight of seen) expect(sight).toMatchObject({ user: undefined, userId: "ada", inMap: "ada" });
    const state = await server.get(`/workflows/tour/executions/${body.data.executionId}/state`);
    expect(state.body.data.context).toEqual({ userId: "ada", note: 1 });
    expect((await server.get("/me", { ...as("ada"), custom: true })).body).toEqual({ user: null });
  });
});

// A user that somebody changes.

describe.each(careless)("a user that %s stands for", (_, auth, user) => {
  let server: TestServer;
  beforeEach(async () => {
    server = await startServer("in process", { config: { ...spoilt, auth } });
    return () => server.close();
  });
  const expectPristine = async (): Promise<void> => {
    for (let times = 0; times < 2; times++)
      expect((await server.get("/me", { ...as("bob"), custom: true })).body).toEqual({ user });
    seen.splice(0);
    await server.post("/agents/witness/text", { input: "look" }, as("bob"));
    for (const sight of seen) expect(sight).toMatchObject({ user, userId: "bob", inMap: "bob" });
  };

  it("hooks, tools and instructions cannot change the user of the next request", async () => {
    expect((await server.post("/agents/spoiler/text", { input: "x" }, as("bob"))).status).toBe(200);
    await expectPristine();
  });

  it("a custom route and its middleware cannot change the user of the next request", async () => {
    await server.get("/spoil", { ...as("bob"), custom: true });
    await expectPristine();
  });

  it("a step cannot change the user of the next step, attempt or request", async () => {
    const begun = await server.post("/workflows/spoiling/execute", { input: {} }, as("bob"));
    const path = `/workflows/spoiling/executions/${begun.body.data.executionId}`;
    const { body } = await server.post(`${path}/resume`, { resumeData: 1 }, as("bob"));
    expect(body.data.result).toEqual({ user, last: user });
    await expectPristine();
  });
});

// What a provider makes of a token.

/** Opens a server. Returns a function that asks a protected and an open route with a token. */
async function openWith(auth: AuthProvider) {
  const server = await startServer("in process", { config: { ...base, auth } });
  onTestFinished(() => server.close());
  return async (token: string = tokens.ada) => {
    seen.splice(0);
    const headers = bearer(token);
    const { status, body } = await server.post("/agents/witness/text", { input: "look" }, { headers });
    const { body: open } = await server.get("/me", { headers, custom: true });
    return { status, error: body.error, user: open.user, sight: seen[0] };
  };
}
const ask = async (auth: AuthProvider) => (await openWith(auth))();
const sign = (payload: Record<string, unknown>): Promise<string> => createToken(payload, secret);

describe("mapUser", () => {
  it("takes the payload for the user without mapUser, and its id or sub for the id", async () => {
    const askWith = await openWith(jwtAuth({ secret }));
    const payloads: [payload: object, id: unknown, userId: string | undefined][] = [
      [{ sub: "ada" }, "ada", "ada"],
      [{ id: "x", sub: "y" }, "x", "x"],
      [{ id: 7 }, 7, "7"],
      [{ id: 0, sub: "y" }, 0, "0"],
      [{ id: null, sub: "y" }, "y", "y"],
      [{}, undefined, undefined],
    ];
    for (const [payload, id, userId] of payloads) {
      const { status, user, sight } = await askWith(await sign({ ...payload, email: "e" }));
      expect(status).toBe(200);
      const expected = { ...payload, email: "e", iat: expect.any(Number), ...(id !== undefined && { id }) };
      expect(user).toEqual(expected);
      expect(sight).toEqual({ where: "onStart", user: expected, userId, inMap: userId });
    }
  });

  it("refuses a user whose id is not a non-empty text or a safe integer", async () => {
    for (const auth of [jwtAuth({ secret }), jwtAuth({ secret, mapUser: (payload) => ({ id: payload["id"] }) })]) {
      const askWith = await openWith(auth);
      for (const id of [{ id: "ada" }, ["ada"], true, false, "", 1.5, 2 ** 53, "\ud800"]) {
        const { sight, ...answer } = await askWith(await sign({ id, sub: "ada" }));
        expect(answer).toEqual({ status: 401, error: expect.stringMatching(/^Invalid token: ./), user: null });
        expect(sight).toBeUndefined();
      }
    }
  });

  it.each([
    ["a promise of it", async () => ({ id: 12, name: "Ada" }), { id: 12, name: "Ada" }, "12"],
    ["no id", () => ({ name: "Ada" }), { name: "Ada" }, undefined],
    [
      "what JSON cannot hold",
      () => ({ id: "a", at: new Date(0), no: undefined }),
      { id: "a", at: new Date(0).toJSON() },
      "a",
    ],
  ])("takes the user that mapUser returns with %s", async (_, mapUser, user, userId) => {
    const answer = await ask(jwtAuth({ secret, mapUser }));
    expect([answer.status, answer.user, answer.sight]).toEqual([
      200,
      user,
      { where: "onStart", user, userId, inMap: userId },
    ]);
  });

  const thrown = (error: unknown) => (): never => {
    throw error;
  };
  it.each([
    ["throws", thrown(new Error("no such account")), 401, "Invalid token: no such account"],
    ["rejects", async () => thrown(new Error("no such account"))(), 401, "Invalid token: no such account"],
    ["throws a ServeError", thrown(new ServeError(403, "Account closed")), 403, "Account closed"],
    ["rejects with a ServeError", async () => thrown(new ServeError(429, "Slowly"))(), 429, "Slowly"],
    ["has a mistake", (payload: any) => payload.not.there, 401, "Invalid token: verification failed"],
    ["returns nothing", () => undefined as never, 401, /^Invalid token: ./],
    ["returns a promise of nothing", async () => undefined as never, 401, /^Invalid token: ./],
    ["returns null", () => null as never, 401, /^Invalid token: ./],
  ])(
    "refuses a caller whose mapUser %s, and serves it anonymously on open routes",
    async (_, mapUser, status, error) => {
      const auth = jwtAuth({ secret, mapUser });
      for (const _time of ["first", "known"]) {
        const answer = await ask(auth);
        expect(answer).toMatchObject({ status, user: null });
        expect(answer.error).toEqual(error instanceof RegExp ? expect.stringMatching(error) : error);
        expect(seen).toEqual([]);
      }
    },
  );
});

describe("a provider", () => {
  const provider = (verifyToken: () => Promise<never>): AuthProvider => ({ type: "test", verifyToken });
  afterEach(() => void vi.useRealTimers());

  it("refuses a caller whose provider takes over five seconds, and serves it anonymously on open routes", async () => {
    const slow = provider(() => new Promise<never>(() => {}));
    const server = await startServer("in process", { config: { ...base, auth: slow } });
    onTestFinished(() => server.close());
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const answers: unknown[] = [];
    const keep = ({ status, body }: { status: number; body: any }) => void answers.push([status, body]);
    const both = Promise.all([
      server.post("/agents/witness/text", { input: "look" }, as("ada")).then(keep),
      server.get("/me", { ...as("ada"), custom: true }).then(keep),
    ]);
    await vi.advanceTimersByTimeAsync(4_990);
    expect(answers).toEqual([]);
    await vi.advanceTimersByTimeAsync(10);
    await both;
    expect(answers).toContainEqual([401, { success: false, error: expect.stringMatching(/^Invalid token: ./) }]);
    expect(answers).toContainEqual([200, { user: null }]);
  });

  it("handles the rejection of a provider that comes after five seconds", async () => {
    const late = Promise.withResolvers<never>();
    const server = await startServer("in process", { config: { ...base, auth: provider(() => late.promise) } });
    onTestFinished(() => server.close());
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const refused = server.post("/agents/witness/text", { input: "look" }, as("ada"));
    await vi.advanceTimersByTimeAsync(5_000);
    expect((await refused).status).toBe(401);
    late.reject(new Error("too late")); // unhandled, it would fail this file
  });
});
