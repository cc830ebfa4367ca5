import { defineWorkflow } from "agentserve";
import { beforeEach, expect, it } from "vitest";
import * as v from "valibot";
import { withBounds } from "../../harness/bounds.ts";
import { createGates } from "../../harness/gates.ts";
import { describeInProcess, startTestServer, type TestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";

let gates = createGates();
let began: string[] = [];
beforeEach(() => {
  gates = createGates();
  began = [];
});
async function work({ executionId, resumeData }: { executionId: string; resumeData: unknown }): Promise<unknown> {
  const name = resumeData === undefined ? executionId : `${executionId} again`;
  began.push(name);
  await gates.pass(name);
  return "done";
}

const perTenant = defineWorkflow({
  id: "per-tenant",
  input: v.object({ tenant: v.string() }),
  concurrency: { limit: 1, key: ({ input }) => input.tenant },
}).andThen({ id: "work", execute: work });
const pair = defineWorkflow({ id: "pair", concurrency: { limit: 2 } }).andThen({ id: "work", execute: work });
const asks = defineWorkflow({ id: "asks", concurrency: { limit: 1 } }).andThen({
  id: "ask",
  execute: ({ suspend, resumeData, executionId }) =>
    resumeData === undefined ? suspend("go on?") : work({ executionId, resumeData }),
});
const free = defineWorkflow({ id: "free" }).andThen({ id: "work", execute: () => "free" });
const empty = defineWorkflow({ id: "empty", concurrency: { limit: 1 } });
const wrongKeys = ["throws", "number", "promise", "long"];
const wrong = defineWorkflow({
  id: "wrong",
  concurrency: {
    limit: 1,
    key({ input }) {
      if (input["key"] === "throws") throw new Error("no key for you");
      if (input["key"] === "number") return 1 as never;
      if (input["key"] === "promise") return Promise.resolve("key") as never;
      return "x".repeat(input["key"] === "long" ? 257 : 256);
    },
  },
}).andThen({ id: "work", execute: () => 1 });
const perUser = defineWorkflow({
  id: "per-user",
  concurrency: {
    limit: 1,
    key: ({ userId, conversationId, context }) => [userId, conversationId, context.get("region")].join(),
  },
}).andThen({ id: "work", execute: work });
const workflows = [perTenant, pair, asks, free, empty, wrong, perUser];

const later = { headers: { prefer: "respond-async" } };
let count = 0;
/** Ids that no other test has used. */
const newIds = (...names: string[]): string[] => {
  const prefix = `c${++count}`;
  return names.map((name) => `${prefix}.${name}`);
};
const begin = (server: TestServer, workflow: string, executionId: string, input: object = {}, options: object = {}) =>
  server.post(`/workflows/${workflow}/execute`, { input, options: { executionId, ...options } }, later);
const at = (workflow: string, id: string, verb: string) => `/workflows/${workflow}/executions/${id}/${verb}`;
const statusOf = async (server: TestServer, workflow: string, id: string) =>
  (await server.get(at(workflow, id, "state"))).body.data.status;
const ends = (server: TestServer, workflow: string, id: string) =>
  eventually(async () => expect(await statusOf(server, workflow, id)).toBe("completed"));
/** Runs a workflow without a limit: what is beyond a limit had time to begin by then. */
const pause = async (server: TestServer) =>
  expect((await server.post("/workflows/free/execute", { input: {} })).body.data.result).toBe("free");

describeInProcess("concurrency of a workflow", { workflows }, (server) => {
  it("runs as many executions per key as the limit, and the others in the order of their start", async () => {
    const [a1, a2, a3, b1] = newIds("a1", "a2", "a3", "b1") as [string, string, string, string];
    for (const id of [a1, a2, a3]) expect((await begin(server, "per-tenant", id, { tenant: "a" })).status).toBe(202);
    expect((await begin(server, "per-tenant", b1, { tenant: "b" })).status).toBe(202);
    await gates.reached(a1);
    await gates.reached(b1); // another key does not wait
    await pause(server); // and no other workflow does
    expect(began.toSorted()).toEqual([a1, b1].toSorted());
    for (const id of [a1, a2, a3, b1]) expect(await statusOf(server, "per-tenant", id)).toBe("running");
    gates.open(a1);
    await gates.reached(a2);
    await pause(server);
    expect(began).not.toContain(a3);
    for (const id of [a2, a3, b1]) gates.open(id);
    for (const id of [a1, a2, a3, b1]) await ends(server, "per-tenant", id);
    expect(began.filter((id) => id !== b1)).toEqual([a1, a2, a3]);
  });

  it("counts all executions of a workflow without a key, and answers a waiting caller with the result", async () => {
    const ids = newIds("1", "2", "3", "4");
    const [first, second, third, fourth] = ids as [string, string, string, string];
    for (const id of [first, second, third]) await begin(server, "pair", id, { any: id });
    const waiting = server.post("/workflows/pair/execute", { input: {}, options: { executionId: fourth } });
    await Promise.all([first, second].map((id) => gates.reached(id)));
    await pause(server);
    expect(began.toSorted()).toEqual([first, second]);
    gates.open(second);
    await gates.reached(third);
    for (const id of [first, third, fourth]) gates.open(id);
    expect((await waiting).body.data).toMatchObject({ executionId: fourth, status: "completed", result: "done" });
    for (const id of ids) await ends(server, "pair", id);
  });

  it("shows an execution that waits for its turn as running, in lists as well, and never its key", async () => {
    const [inside, waiting] = newIds("inside", "waiting") as [string, string];
    const tenant = "a-tenant-that-is-a-key";
    for (const id of [inside, waiting]) await begin(server, "per-tenant", id, { tenant });
    await gates.reached(inside);
    const state = (await server.get(at("per-tenant", waiting, "state"))).body.data;
    expect(state).toMatchObject({ status: "running", endAt: null, input: { tenant } });
    expect(Object.keys(state).filter((key) => /concurrency|key/i.test(key))).toEqual([]);
    const { items } = (await server.get("/workflows/per-tenant/executions?status=running")).body.data;
    expect(items.map(({ executionId }: any) => executionId)).toEqual(expect.arrayContaining([waiting]));
    expect(JSON.stringify(items)).not.toContain("concurrencyKey");
    const again = await begin(server, "per-tenant", waiting, { tenant });
    expect(again.status).toBe(409);
    for (const id of [inside, waiting]) gates.open(id);
    await ends(server, "per-tenant", waiting);
  });

  it("cancels an execution that waits for its turn, and continues with the next one", async () => {
    const [inside, cancelled, next] = newIds("inside", "cancelled", "next") as [string, string, string];
    for (const id of [inside, cancelled, next]) await begin(server, "per-tenant", id, { tenant: "cancel" });
    await gates.reached(inside);
    expect((await server.post(at("per-tenant", cancelled, "cancel"), {})).status).toBe(200);
    expect(await statusOf(server, "per-tenant", cancelled)).toBe("error");
    gates.open(inside);
    await gates.reached(next);
    expect(began).toEqual([inside, next]);
    gates.open(next);
    await ends(server, "per-tenant", next);
    const { events } = await server.get(at("per-tenant", cancelled, "stream"));
    expect(events.map(({ type }) => type)).toEqual([
      "workflow-start",
      "step-start",
      "workflow-error",
      "workflow-result",
    ]);
  });

  it("suspends an execution that waits for its turn, and queues its resume behind the others", async () => {
    const [inside, moved, next] = newIds("inside", "moved", "next") as [string, string, string];
    for (const id of [inside, moved, next]) await begin(server, "per-tenant", id, { tenant: "suspend" });
    await gates.reached(inside);
    const suspended = await server.post(at("per-tenant", moved, "suspend"), { reason: "not now" });
    expect(suspended.body.data).toMatchObject({
      status: "suspended",
      suspension: { reason: "not now" },
    });
    const resumed = server.post(at("per-tenant", moved, "resume"), {});
    await eventually(async () => expect(await statusOf(server, "per-tenant", moved)).toBe("running"));
    await pause(server);
    expect(began).toEqual([inside]);
    gates.open(inside);
    await gates.reached(next);
    await pause(server);
    expect(began).toEqual([inside, next]);
    for (const id of [next, moved]) gates.open(id);
    expect((await resumed).body.data).toMatchObject({ status: "completed", result: "done" });
    expect(began).toEqual([inside, next, moved]);
  });

  it("gives the place of a suspended execution to the next one, and queues its resume", async () => {
    const [first, second, third] = newIds("1", "2", "3") as [string, string, string];
    const suspended = { status: "suspended" };
    for (const executionId of [first, second, third]) {
      const answer = await server.post("/workflows/asks/execute", { input: {}, options: { executionId } });
      expect(answer.body.data).toMatchObject(suspended);
    }
    const answers = [];
    for (const id of [second, first, third]) {
      answers.push(server.post(at("asks", id, "resume"), { resumeData: true }));
      await eventually(async () => expect(await statusOf(server, "asks", id)).toBe("running"));
    }
    await gates.reached(`${second} again`);
    await pause(server);
    expect(began).toEqual([`${second} again`]);
    for (const id of [second, first, third]) gates.open(`${id} again`);
    for (const answer of await Promise.all(answers)) expect(answer.body.data).toMatchObject({ result: "done" });
    expect(began).toEqual([second, first, third].map((id) => `${id} again`));
  });

  it("streams the start of a queued execution at once, and the rest when its turn comes", async () => {
    const [inside, waiting] = newIds("inside", "waiting") as [string, string];
    await begin(server, "per-tenant", inside, { tenant: "stream" });
    await gates.reached(inside);
    await begin(server, "per-tenant", waiting, { tenant: "stream" });
    const response = await server.send(at("per-tenant", waiting, "stream"), {});
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("step-start")) text += (await reader.read()).value;
    expect(text).toContain("workflow-start");
    expect(began).toEqual([inside]);
    for (const id of [inside, waiting]) gates.open(id);
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    const types = [...text.matchAll(/"type":"([\w-]+)"/g)].map(([, type]) => type);
    expect(types).toEqual(["workflow-start", "step-start", "step-complete", "workflow-complete", "workflow-result"]);
    const posted = newIds("posted")[0]!;
    gates.open(posted);
    const { events } = await server.post("/workflows/per-tenant/stream", {
      input: { tenant: "stream" },
      options: { executionId: posted },
    });
    expect(events.map(({ type }) => type)).toEqual(types);
  });

  it("calls the concurrency key with the user, the conversation and the context", async () => {
    const ids = newIds("1", "2", "3", "4", "5");
    const options = [
      { userId: "u", conversationId: "c", context: { region: "eu" } },
      { userId: "u", conversationId: "c", context: { region: "eu" } },
      { userId: "v", conversationId: "c", context: { region: "eu" } },
      { userId: "u", conversationId: "d", context: { region: "eu" } },
      { userId: "u", conversationId: "c", context: { region: "us" } },
    ];
    for (const [index, id] of ids.entries()) await begin(server, "per-user", id, {}, options[index]!);
    const others = ids.filter((_, index) => index !== 1);
    await Promise.all(others.map((id) => gates.reached(id)));
    expect(began.toSorted()).toEqual(others);
    for (const id of ids) gates.open(id);
    for (const id of ids) await ends(server, "per-user", id);
  });

  it("starts nothing if the concurrency key throws or is not a text, and logs why", async () => {
    for (const key of wrongKeys) {
      const [id] = newIds(key) as [string];
      const before = server.logs.length;
      const answer = await server.post("/workflows/wrong/execute", { input: { key }, options: { executionId: id } });
      expect([answer.status, answer.body.error]).toEqual([500, "Failed to execute workflow"]);
      expect(answer.headers.get("x-execution-id")).toBeNull();
      expect((await server.get(at("wrong", id, "state"))).status).toBe(404);
      const logged = server.logs.slice(before).map(({ message, data }) => [message, String(data?.["error"])]);
      expect(logged).toEqual([
        [
          "The concurrency key of a workflow failed: nothing was started",
          expect.stringMatching(
            /no key for you|expected a text of at most 256 characters, found (number|a promise|257 characters)/,
          ),
        ],
      ]);
    }
    expect((await server.post("/workflows/wrong/execute", { input: { key: "fits" } })).body.data.result).toBe(1);
  });

  it("completes executions of a workflow without steps under a concurrency limit", async () => {
    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, n) => server.post("/workflows/empty/execute", { input: { n } })),
    );
    expect(answers.map(({ body }) => body.data.result.n)).toEqual([0, 1, 2, 3, 4]);
  });
});

it("refuses executions beyond waitingExecutions with 503 and Retry-After, without a delay for other workflows", async () => {
  const bounds = { waitingExecutions: 2, runningExecutions: 2, queuedExecutions: 1, drainMs: 10 };
  const server = await startTestServer("start", { config: withBounds(bounds, { workflows }) });
  const [inside, second, third, refused] = newIds("inside", "second", "third", "refused") as string[] as [
    string,
    string,
    string,
    string,
  ];
  for (const id of [inside, second, third])
    expect((await begin(server, "per-tenant", id, { tenant: "x" })).status).toBe(202);
  const answer = await begin(server, "per-tenant", refused, { tenant: "x" });
  expect([answer.status, answer.body.error, answer.headers.get("retry-after")]).toEqual([
    503,
    "Too many executions are waiting",
    "1",
  ]);
  expect((await server.get(at("per-tenant", refused, "state"))).status).toBe(404);
  await pause(server); // those that wait take no slot and no place in the queue
  await gates.reached(inside);
  gates.open(inside);
  await gates.reached(second);
  expect((await begin(server, "per-tenant", refused, { tenant: "x" })).status).toBe(202);
  for (const id of [second, third, refused]) gates.open(id);
  await ends(server, "per-tenant", refused);
});

it.each<[concurrency: unknown, message: string]>([
  [{ limit: 0 }, "Workflow w: concurrency.limit: expected a whole number from 1, found 0"],
  [{ limit: 1.5 }, "Workflow w: concurrency.limit: expected a whole number from 1, found 1.5"],
  [{}, "Workflow w: concurrency.limit: expected a whole number from 1, found undefined"],
  [{ limit: "2" }, 'Workflow w: concurrency.limit: expected a whole number from 1, found "2"'],
  [{ limit: 1, key: "tenant" }, 'Workflow w: concurrency.key: expected a function, found "tenant"'],
  [{ limit: 1, keys: 1 }, 'Workflow w: concurrency: unknown option "keys"'],
  [3, "Workflow w: concurrency: expected { limit, key? }, found 3"],
  [null, "Workflow w: concurrency: expected { limit, key? }, found null"],
])("refuses a workflow with concurrency: %j", (concurrency, message) => {
  expect(() => defineWorkflow({ id: "w", concurrency: concurrency as never })).toThrow(new TypeError(message));
});
