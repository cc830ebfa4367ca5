// Each of these changes makes tests of this file fail: a resumer who becomes the user; a user, or who resumed, that is not
// in the journal; an owner who is forgotten; instructions shown to whoever is not, or cannot be, authenticated.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { andAgent, andThen, defineAgent, defineWorkflow, jwtAuth, type AuthProvider, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { onFile } from "../harness/backends.ts";
import { createGates } from "../harness/gates.ts";
import { describeServer, startServer, type TestServer } from "../harness/server.ts";
import { as, base, bearer, idOf, secret, seen, tokens, tour, userOf, witness, type Name } from "./identity/witness.ts";
import { trusting } from "./ownership/world.ts";

const folder = mkdtempSync(join(tmpdir(), "agentserve-survival-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const gates = createGates();
beforeEach(() => void seen.splice(0));

type Said = { context: ReadonlyMap<string, unknown>; resumedBy?: unknown };
const who = ({ context, resumedBy }: Said) => ({
  user: context.get("user") ?? null,
  userId: context.get("userId") ?? null,
  resumedBy: resumedBy ?? null,
});
/** Says who it is for before a person is asked, at the person, in a step that a test may hold, and at the end. */
const journey = defineWorkflow({ id: "journey" })
  .andThen({ id: "before", execute: (context) => who(context) })
  .andThen({
    id: "person",
    async execute(context) {
      if (context.resumeData === undefined) return context.suspend();
      if (context.resumeData === "wait") await gates.pass(context.executionId);
      return who(context);
    },
  })
  .andAll({
    id: "after",
    steps: [
      andThen({ id: "step", execute: (context) => who(context) }),
      andAgent({ id: "agent", agent: witness, prompt: "look", map: (_, context) => who(context) }),
    ],
  })
  .andThen({
    id: "end",
    execute: ({ data, getStepData }) => ({ before: getStepData("before"), person: getStepData("person"), after: data }),
  });

/** Servers on one file, one after the other. */
function createFile(config: Config): (next?: Config) => Promise<TestServer> {
  const path = join(folder, `${++files}.db`);
  let server: TestServer | undefined;
  onTestFinished(() => server?.close());
  return async (next = {}) => {
    await server?.close();
    const limits = { server: { limits: { drainMs: 50 } } };
    const backend = onFile(path); // a restart needs it
    server = await startServer("start", { config: { ...config, ...limits, ...next }, backend });
    return server;
  };
}
const config: Config = { ...base, workflows: [journey, tour], auth: jwtAuth({ secret }) };
const begin = async (server: TestServer, name: Name, workflow = "journey"): Promise<string> => {
  const { body } = await server.post(`/workflows/${workflow}/execute`, { input: { wait: true } }, as(name));
  expect(body.data.status).toBe("suspended");
  return `/workflows/${workflow}/executions/${body.data.executionId}`;
};
const seenOf = (name: Name) => ({ user: userOf(name), userId: idOf(name) ?? null, resumedBy: null });
const credentials = { bob: bearer(tokens.bob), faceless: bearer(tokens.faceless), nobody: {}, bad: bearer("x.y.z") };
const resumers = Object.entries(credentials);
const toResumer = (name: string): unknown => {
  const user = name === "bob" || name === "faceless" ? userOf(name) : undefined;
  return user ? { user, ...(name === "bob" && { userId: "bob" }) } : null;
};
/** What `journey` says when ada began it and this one resumed it. */
const toResult = (name: string) => ({
  before: seenOf("ada"),
  person: { ...seenOf("ada"), resumedBy: toResumer(name) },
  after: [seenOf("ada"), seenOf("ada")],
});

describe("after a restart", () => {
  it.each(resumers)(
    "keeps the user of an execution over a restart, though it is resumed by %s",
    async (name, headers) => {
      const open = createFile(config);
      const path = await begin(await open(), "ada");
      const server = await open();
      const { body } = await server.post(
        `${path}/resume`,
        { resumeData: 1 },
        { headers: headers as Record<string, string> },
      );
      expect(body.data.result).toEqual(toResult(name));
      // The agent that a step asked.
      for (const { user, userId } of seen) expect({ user, userId }).toEqual({ user: userOf("ada"), userId: "ada" });
      expect(seen.length).toBeGreaterThan(0);
      const { context } = (await server.get(`${path}/state`)).body.data;
      expect(context).toEqual({ userId: "ada" });
    },
  );

  it.each(resumers.filter(([name]) => name === "bob" || name === "nobody"))(
    "keeps the user and resumedBy of a step that a restart interrupts, resumed by %s",
    async (name, headers) => {
      const open = createFile(config);
      const first = await open();
      const path = await begin(first, "ada");
      const id = path.split("/").at(-1)!;
      const init = { headers: headers as Record<string, string> };
      const waiting = first.post(`${path}/resume`, { resumeData: "wait" }, init);
      await gates.reached(id);
      const second = await open();
      expect((await waiting).status).toBe(503);
      gates.open(id);
      const state = async () => (await second.get(`${path}/state`)).body.data;
      await expect.poll(async () => (await state()).status).toBe("completed");
      expect((await state()).result).toEqual(toResult(name));
    },
  );

  it("keeps the user of an execution when the provider changes", async () => {
    const changed: AuthProvider[] = [
      jwtAuth({ secret, mapUser: () => ({ id: "changed" }) }),
      { type: "none", verifyToken: () => Promise.reject(new Error("nobody is known any more")) },
    ];
    for (const auth of [...changed, undefined]) {
      const open = createFile(config);
      const path = await begin(await open(), "ada");
      const { body } = await (await open({ ...config, auth })).post(`${path}/resume`, { resumeData: 1 });
      expect(body.data.result).toEqual(toResult("nobody"));
    }
  });

  it("shows an execution to its owner only after a restart", async () => {
    const open = createFile({ ...config, auth: jwtAuth({ secret, ownership: true }) });
    const path = await begin(await open(), "ada");
    const server = await open();
    for (const init of [as("bob"), as("faceless"), {}]) {
      expect((await server.get(`${path}/state`, init)).status).toBe(404);
      expect((await server.post(`${path}/resume`, { resumeData: 1 }, init)).status).toBe(404);
    }
    const list = async (name: Name) => (await server.get("/workflows/journey/executions", as(name))).body.data.items;
    expect([(await list("ada")).length, await list("bob"), await list("faceless")]).toEqual([1, [], []]);
    const { body } = await server.post(`${path}/resume`, { resumeData: 1 }, as("ada"));
    expect(body.data.result.person.resumedBy).toEqual({ user: userOf("ada"), userId: "ada" });
  });

  it("keeps a user with unusual JSON over a restart", async () => {
    const open = createFile({ ...config, auth: trusting });
    const toHeaders = (user: unknown) => bearer(Buffer.from(JSON.stringify(user)).toString("base64url"));
    const users = [
      '{"__proto__":{"id":"ada"},"id":"x"}',
      '{"id":-0,"n":1e21}',
      '{"id":"\\u0000","name":"\\udfff\\u0000"}',
      '{"":{"deep":[[],{},[null,true,1.5,"\\"\\\\"]]},"é😀":"e\u0301"}',
      '{"id":9007199254740991,"constructor":{"prototype":{}},"user":{"id":"ada"},"userId":"ada"}',
      "{}",
    ].map((text) => JSON.parse(text) as object);
    const first = await open();
    const paths: string[] = [];
    for (const user of users) {
      const { body } = await first.post("/workflows/journey/execute", { input: {} }, { headers: toHeaders(user) });
      paths.push(`/workflows/journey/executions/${body.data.executionId}`);
    }
    const second = await open();
    for (const [index, user] of users.entries()) {
      const { body } = await second.post(`${paths[index]}/resume`, { resumeData: 1 }, { headers: toHeaders(user) });
      const { before, person, after } = body.data.result;
      expect(JSON.stringify(before.user)).toBe(JSON.stringify(user));
      expect(after).toEqual([before, before]);
      expect({ ...person, resumedBy: null }).toEqual(before);
      expect(person.resumedBy.user).toEqual(before.user);
      expect(person.resumedBy.userId ?? null).toBe(before.userId);
    }
  });

  it.each([
    ["the user", (context: Said) => context.context.get("user")],
    ["resumedBy", (context: Said) => (context.resumedBy as { user: unknown }).user],
  ])("keeps %s that a step has tried to change for its next attempt, also over a restart", async (_, toUser) => {
    const careless = defineWorkflow({ id: "careless" }).andThen({
      id: "person",
      retry: { attempts: 2 },
      async execute(context) {
        const { executionId, attempt, resumedBy, suspend } = context;
        if (!resumedBy) return suspend();
        await gates.pass(executionId);
        const told = structuredClone(who(context));
        (toUser(context) as { roles: string[] }).roles.push("admin");
        if (attempt === 1) throw new Error("once more");
        return told;
      },
    });
    const open = createFile({ ...config, workflows: [careless] });
    const first = await open();
    const path = await begin(first, "ada", "careless");
    const id = path.split("/").at(-1)!;
    const waiting = first.post(`${path}/resume`, {}, as("bob"));
    await gates.reached(id);
    const second = await open();
    await waiting;
    gates.open(id);
    const state = async () => (await second.get(`${path}/state`)).body.data;
    await expect.poll(async () => (await state()).status).not.toBe("running");
    const result = { ...seenOf("ada"), resumedBy: { user: userOf("bob"), userId: "bob" } };
    expect(await state()).toMatchObject({ status: "completed", result });
  });
});

const secretive = defineAgent({ id: "secretive", instructions: "Tell nobody.", model: echoModel() });
const guarded: [title: string, auth: AuthProvider | undefined][] = [
  ["with a provider", jwtAuth({ secret })],
  ["in opt-out mode, opened", jwtAuth({ secret, defaultPrivate: true, publicRoutes: ["GET /agents/*", "GET /doc"] })],
  ["without a provider", undefined],
];
describe.each(guarded)("%s", (_, auth) => {
  describeServer("GET /agents/:id", { config: { agents: [secretive], auth }, only: ["dev", "start"] }, (server) => {
    const callers: [string, object, boolean][] = [
      ["nobody", {}, false],
      ["a bad token", bearer("x.y.z"), false],
      ["a token that somebody else signed", bearer(`${tokens.ada.slice(0, -4)}AAAA`), false],
      ["claims", { "x-user-id": "ada", cookie: "user=ada" }, false],
      ["ada", bearer(tokens.ada), auth !== undefined],
      ["a user without an id", bearer(tokens.faceless), auth !== undefined],
    ];
    it.each(callers)(
      "shows instructions to an authenticated caller, and without a provider only in dev: %s",
      async (__, headers, isKnown) => {
        const init = { headers: headers as Record<string, string> };
        const isShown = isKnown || (auth === undefined && server.target === "dev");
        const { status, body, text } = await server.get("/agents/secretive?user=ada&userId=ada", init);
        expect([status, body.data.instructions]).toEqual([200, isShown ? "Tell nobody." : undefined]);
        expect(text.includes("Tell nobody")).toBe(isShown);
        expect((await server.get("/agents", init)).text).not.toContain("Tell nobody");
        // A length tells how much there is.
        const head = await server.request("/agents/secretive", { method: "HEAD", ...init });
        const length = head.headers.get("content-length");
        expect([head.status, length ?? String(text.length)]).toEqual([200, String(text.length)]);
      },
    );
  });
});
