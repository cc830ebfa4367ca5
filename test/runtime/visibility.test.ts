// Each of these changes makes a test of this file fail: without a provider, a step of a user sees the executions of others; a
// child of an execution of the server does not inherit what it sees, or does so for another user; a fork by a caller inherits it;
// it is lost at a restart; `asServer()` counts children from 1 again.
import { join } from "node:path";
import {
  createToken,
  defineAgent,
  defineSchedule,
  defineTool,
  defineWorkflow,
  jwtAuth,
  type Config,
  type Runtime,
  type ServeError,
  type Server,
} from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { createFolder } from "../harness/folders.ts";
import { openPlace } from "../harness/places.ts";
import { open } from "./open.ts";

const secret = "a secret for tests, at least 32 bytes";
const plain = defineWorkflow({ id: "plain" }).andThen({ id: "x", execute: () => 1 });
const everything = ["of-ada", "of-bob", "of-nobody", "of-server"];

const idsOf = async (runtime: Runtime, userId?: string): Promise<string[]> => {
  const filter = { workflowId: "plain", id: "of-", ...(userId !== undefined && { userId }) };
  return (await runtime.executions.list(filter)).items.map(({ executionId }) => executionId).toSorted();
};
const refusal = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => "no error",
    (error: ServeError) => [error.status, error.message],
  );

const looks = defineWorkflow({ id: "looks" }).andThen({ id: "look", execute: ({ runtime }) => idsOf(runtime) });
const gets = defineWorkflow({ id: "gets" }).andThen({
  id: "get",
  execute: async ({ runtime }) => {
    const found = everything.map(async (id) => [id, await refusal(runtime.executions.get(id))] as const);
    return (await Promise.all(found)).flatMap(([id, answer]) => (answer === "no error" ? [id] : []));
  },
});
const asks = defineWorkflow({ id: "asks" }).andThen({
  id: "ask",
  execute: async ({ runtime }) => [
    await refusal(runtime.executions.list({ userId: "bob" })),
    await refusal((runtime.start as any)(plain, {}, { as: { id: "bob" } })),
    await idsOf(runtime.asServer()),
    await idsOf(runtime.asServer(), "bob"),
    await idsOf(runtime),
  ],
});
const parent = defineWorkflow({ id: "parent" }).andThen({
  id: "start",
  async execute({ runtime }) {
    const own = await runtime.execute(looks, {});
    const other = await runtime.asServer().execute(looks, {}, { as: { id: "ada" } });
    return [own, other].map((end) => end.status === "completed" && end.result);
  },
});
const waits = defineWorkflow({ id: "waits" })
  .andThen({ id: "wait", execute: ({ resumeData, suspend }) => resumeData ?? suspend("Continue?") })
  .andThen({ id: "look", execute: ({ runtime }) => idsOf(runtime) });
const nightly = defineSchedule({ id: "nightly", cron: "0 3 1 1 *", workflow: looks, input: {} });

const look = defineTool({
  description: "Looks",
  inputSchema: v.object({}),
  execute: async (_, { runtime }) => ({ own: await idsOf(runtime), all: await idsOf(runtime.asServer()) }),
});
const calls = { toolCalls: [{ toolName: "look", input: {} }] };
const scout = defineAgent({
  id: "scout",
  instructions: "x",
  model: scriptedModel([calls, "Done", calls, "Done"]), // for both configs
  tools: { look },
});
const config: Config = {
  workflows: [plain, looks, gets, asks, parent, waits],
  schedules: [nightly],
  agents: [scout],
  configureApp(app) {
    app.get("/own", (event) => idsOf(event.context.runtime));
    app.get("/all", (event) => idsOf(event.context.runtime.asServer()));
  },
};
const auth = jwtAuth({ secret, publicRoutes: ["POST /workflows/:id/execute"] });

/** Sends a request for a user: with a token if there is a provider. */
async function send(server: Server, path: string, { body, user }: { body?: any; user?: string | undefined } = {}) {
  const token = user === undefined ? undefined : await createToken({ sub: user }, secret);
  const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  const init = body && {
    method: "POST",
    body: JSON.stringify({ ...body, options: { userId: user, ...body.options } }),
  };
  const response = await server.fetch(new Request(`http://localhost${path}`, { headers, ...init }));
  return (await response.json()) as any;
}
const run = async (server: Server, workflow: string, user?: string, options = {}): Promise<any> =>
  (await send(server, `/workflows/${workflow}/execute`, { body: { input: {}, options }, user })).data;

/** Executions of two users, of a caller without one, and of the server itself. */
async function fill(server: Server): Promise<Server> {
  for (const user of ["ada", "bob", undefined])
    await run(server, "plain", user, { executionId: `of-${user ?? "nobody"}` });
  await server.runtime.execute(plain, {}, { executionId: "of-server" });
  return server;
}

describe.each([
  ["with a provider", { ...config, auth, authorize: () => true }], // forks and triggers of callers need it
  ["without a provider", config],
])("the executions that runtime sees %s", (_, given) => {
  it("shows a step the executions of its user only, and others by asServer()", async () => {
    const server = await fill(open(given));
    expect((await run(server, "looks", "ada")).result).toEqual(["of-ada"]);
    expect((await run(server, "gets", "ada")).result).toEqual(["of-ada"]);
    expect((await run(server, "asks", "ada")).result).toEqual([
      [403, "Forbidden: executions of another user need runtime.asServer()"],
      [400, "Invalid options: as: this runtime acts for its own user only; use runtime.asServer()"],
      everything,
      ["of-bob"],
      ["of-ada"],
    ]);
  });

  it("shows a step of an execution without a user the executions without one", async () => {
    const server = await fill(open(given));
    expect((await run(server, "looks")).result).toEqual(["of-nobody", "of-server"]);
    expect((await run(server, "gets")).result).toEqual(["of-nobody", "of-server"]);
  });

  it("shows a step all executions if the server or a schedule has begun it, its children too, but none of another user's", async () => {
    const server = await fill(open(given));
    const { runtime } = server;
    expect(await runtime.execute(looks, {})).toMatchObject({ result: everything });
    expect(await runtime.execute(gets, {})).toMatchObject({ result: everything });
    expect(await runtime.execute(parent, {})).toMatchObject({ result: [everything, ["of-ada"]] });
    expect(await runtime.execute(looks, {}, { as: { id: "bob" } })).toMatchObject({ result: ["of-bob"] });
    const { data } = await send(server, "/schedules/nightly/trigger", { body: {}, user: "ada" });
    const ticked = await runtime.executions.get(data.executionId);
    expect(await ticked.result()).toMatchObject({ result: everything });
  });

  it("shows a fork that a caller makes of the server's execution no more than its user may see", async () => {
    const server = await fill(open(given));
    const { executionId } = await server.runtime.execute(looks, {});
    const { data } = await send(server, `/workflows/looks/executions/${executionId}/fork`, { body: {}, user: "ada" });
    const forked = await server.runtime.executions.get(data.executionId);
    const own = given === config ? ["of-nobody", "of-server"] : ["of-ada"]; // without a provider, a fork keeps its user
    expect(await forked.result()).toMatchObject({ result: own });
  });

  it("shows a tool and a custom route the executions of their caller, and all of them by asServer()", async () => {
    const server = await fill(open(given));
    const { data } = await send(server, "/agents/scout/text", { body: { input: "go" }, user: "ada" });
    expect(data.toolResults).toMatchObject([{ output: { own: ["of-ada"], all: everything } }]);
    const own = given === config ? ["of-nobody", "of-server"] : ["of-ada"]; // without a provider, a route has no caller
    expect(await send(server, "/own", { user: "ada" })).toEqual(own);
    expect(await send(server, "/all", { user: "ada" })).toEqual(everything);
  });
});

it("shows a step of the server's execution all executions after a restart", async () => {
  const path = join(createFolder("visibility"), "data.db");
  const first = await fill(open({ ...config, backend: await openPlace(path) }));
  const { executionId } = await first.runtime.start(waits, {});
  const own = await run(first, "waits", "ada");
  await (await first.runtime.executions.get(executionId)).result();
  await first.close();
  const { runtime } = open({ ...config, backend: await openPlace(path) });
  for (const [id, seen] of [
    [executionId, everything],
    [own.executionId, ["of-ada"]],
  ]) {
    const handle = await runtime.executions.get(id);
    await handle.resume({});
    expect(await handle.result()).toMatchObject({ status: "completed", result: seen });
  }
});

it("keeps children and questions of a step apart that it starts by asServer(), also in another attempt", async () => {
  const started: string[][] = [];
  const model = scriptedModel(["1", "2", "3", "4"]);
  const helper = defineAgent({ id: "helper", instructions: "x", model });
  const starts = defineWorkflow({ id: "starts" }).andThen({
    id: "start",
    retry: { attempts: 2, delay: 0 },
    async execute({ runtime, attempt }) {
      const [own, bob] = [
        await runtime.start(plain, {}),
        await runtime.asServer().start(plain, {}, { as: { id: "bob" } }),
      ];
      started.push([own.executionId, bob.executionId]);
      const answers = [
        await runtime.ask(helper, "Who?"),
        await runtime.asServer().ask(helper, "Who?", { as: { id: "bob" } }),
      ];
      if (attempt === 1) throw new Error("again");
      const other = await refusal(runtime.asServer().start(plain, {}, { as: { id: "eve" }, key: "x" }));
      const taken = await refusal(runtime.asServer().start(plain, {}, { as: { id: "bob" }, key: "x" }));
      return { bob: (await bob.state()).context, answers, other, taken };
    },
  });
  const server = open({ ...config, workflows: [plain, starts], schedules: [], agents: [helper] });
  const { result } = await run(server, "starts", "ada");
  expect(result).toEqual({
    bob: { userId: "bob" },
    answers: ["3", "4"], // another attempt asks again
    other: "no error",
    taken: [409, "This step has started child x with another user: give each child a key"],
  });
  expect(started[0]).toEqual(started[1]);
  expect(new Set(started[0]).size).toBe(2);
});
