// Waits in real time, on the backend that is chosen. Those on a moved clock are beside it, on the embedded one.
import { andSleep, andWaitFor, createToken, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { beforeEach, describe, expect, it } from "vitest";
import { withBounds } from "../../harness/bounds.ts";
import { createGates } from "../../harness/gates.ts";
import { describeInProcess, startTestServer, type TestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";

let gates = createGates();
beforeEach(() => {
  gates = createGates();
});
/** The steps that have run, by execution. */
const ran: string[] = [];
const note = (id: string) => ({
  id,
  execute: ({ executionId, data }: { executionId: string; data: unknown }): unknown => {
    ran.push(`${executionId} ${id}`);
    return data;
  },
});
const runs = (text: string): number => ran.filter((one) => one === text).length;

const key = ({ executionId }: { executionId: string }): string => executionId;
const long = defineWorkflow({ id: "long" }).andSleep({ id: "nap", duration: 600 }).andThen(note("end"));
const short = defineWorkflow({ id: "short" }).andSleep({ id: "nap", duration: 50 }).andThen(note("end"));
const ask = defineWorkflow({ id: "ask" }).andThen({
  id: "ask",
  execute: ({ suspend, timedOut, resumeData }) =>
    timedOut ? "late" : (resumeData ?? suspend("Approve?", undefined, { timeout: 500 })),
});
const paid = defineWorkflow({ id: "paid" }).andWaitFor({ id: "wait", event: "paid", key }).andThen(note("end"));
const late = defineWorkflow({ id: "late" })
  .andThen({ id: "gate", execute: ({ executionId }) => gates.pass(executionId) })
  .andWaitFor({ id: "wait", event: "paid", key });
const twice = defineWorkflow({ id: "twice" })
  .andWaitFor({ id: "first", event: "paid", key })
  .andThen(note("between"))
  .andWaitFor({ id: "second", event: "paid", key });
const limited = defineWorkflow({ id: "limited" })
  .andWaitFor({ id: "wait", event: "paid", key, timeout: 500 })
  .andThen({ id: "keep", execute: ({ data }) => data ?? "timed out" })
  .andWaitFor({ id: "next", event: "paid", key });
const each = defineWorkflow({ id: "each" }).andForEach({
  id: "each",
  items: () => [1, 2, 3],
  concurrency: 3,
  steps: [
    andSleep({ id: "nap", duration: 400 }),
    andWaitFor({ id: "wait", event: "paid", key: ({ executionId, data }) => `${executionId}-${String(data)}` }),
  ],
});
const workflows = [long, short, ask, paid, late, twice, limited, each];
const bounds = { inlineSleepMs: 200 };

let count = 0;
const newId = (): string => `w${++count}`;
const begin = async (server: TestServer, workflow: string, executionId: string): Promise<void> => {
  const body = { input: {}, options: { executionId } };
  const { status } = await server.post(`/workflows/${workflow}/execute`, body, {
    headers: { prefer: "respond-async" },
  });
  expect(status).toBe(202);
};
const stateOf = async (server: TestServer, workflow: string, id: string) =>
  (await server.get(`/workflows/${workflow}/executions/${id}/state`)).body.data;
const reach = (server: TestServer, workflow: string, id: string, state: object) =>
  eventually(async () => expect(await stateOf(server, workflow, id)).toMatchObject(state));
const eventsOf = async (server: TestServer, workflow: string, id: string): Promise<string[]> => {
  const { events } = await server.get(`/workflows/${workflow}/executions/${id}/stream`);
  return events.map(({ type, from }) => (from === undefined ? type : `${type} ${from}`));
};
const send = (server: TestServer, event: object) => server.post("/events", { name: "paid", ...event });

describeInProcess("waits", withBounds(bounds, { workflows }), (server) => {
  it("suspends an execution for a sleep over inlineSleepMs, and continues it once", async () => {
    const id = newId();
    const { body } = await server.post("/workflows/long/execute", { input: {}, options: { executionId: id } });
    expect(body.data).toMatchObject({ status: "suspended", suspension: { kind: "timer", stepId: "nap" } });
    await reach(server, "long", id, { status: "completed" });
    expect(await eventsOf(server, "long", id)).toEqual([
      "workflow-start",
      "step-start nap",
      "workflow-suspended",
      "step-complete nap",
      "step-start end",
      "step-complete end",
      "workflow-complete",
      "workflow-result",
    ]);
    expect(runs(`${id} end`)).toBe(1);
  });

  it("keeps an execution running through a sleep of up to inlineSleepMs", async () => {
    const id = newId();
    const { body } = await server.post("/workflows/short/execute", { input: {}, options: { executionId: id } });
    expect(body.data).toMatchObject({ status: "completed" });
    expect(await eventsOf(server, "short", id)).not.toContain("workflow-suspended");
  });

  it("continues a suspended step at its deadline", async () => {
    const id = newId();
    const { body } = await server.post("/workflows/ask/execute", { input: {}, options: { executionId: id } });
    expect(body.data.suspension).toMatchObject({ kind: "person", deadline: expect.any(String) });
    await reach(server, "ask", id, { status: "completed", result: "late" });
  });

  it("takes an event that is sent before the wait begins, and one that is sent while it waits", async () => {
    const [before, during] = [newId(), newId()];
    await begin(server, "late", before);
    await gates.reached(before);
    expect((await send(server, { key: before, data: 1 })).status).toBe(202);
    gates.open(before);
    await reach(server, "late", before, { status: "completed", result: 1 });
    await begin(server, "paid", during);
    const suspension = { kind: "event", event: "paid", key: during };
    await reach(server, "paid", during, { status: "suspended", suspension });
    expect((await send(server, { key: during, data: 2 })).status).toBe(202);
    await reach(server, "paid", during, { status: "completed", result: 2 });
    expect(runs(`${during} end`)).toBe(1);
  });

  it("leaves an event that is sent after the time-out to the next wait", async () => {
    const id = newId();
    await begin(server, "limited", id);
    await reach(server, "limited", id, { status: "suspended", suspension: { stepId: "next" } });
    await send(server, { key: id, data: "late" });
    await reach(server, "limited", id, { status: "completed", result: "late" });
    const { body } = await server.get(`/workflows/limited/executions/${id}/steps`);
    expect(body.data.items.map(({ path, status }: any) => [path, status])).toEqual([
      ["wait", "success"],
      ["keep", "success"],
      ["next", "success"],
    ]);
  });

  it("takes an event once, however often it is sent", async () => {
    const id = newId();
    await begin(server, "twice", id);
    const event = { key: id, data: { n: 1 }, id };
    expect([(await send(server, event)).body, (await send(server, event)).body]).toEqual([
      { success: true, data: { id } },
      { success: true, data: { id } },
    ]);
    await reach(server, "twice", id, { status: "suspended", suspension: { stepId: "second" } });
    expect((await send(server, event)).status).toBe(202);
    expect((await send(server, { ...event, data: { n: 2 } })).status).toBe(409);
    await send(server, { key: id, data: { n: 3 } });
    await reach(server, "twice", id, { status: "completed", result: { n: 3 } });
    expect(runs(`${id} between`)).toBe(1);
  });

  it("waits for events in each item of a loop by itself", async () => {
    const id = newId();
    await begin(server, "each", id);
    for (const item of [3, 1]) await send(server, { key: `${id}-${item}`, data: item * 10 });
    await reach(server, "each", id, { status: "suspended", suspension: { stepId: "each/1/wait", key: `${id}-2` } });
    await send(server, { key: `${id}-2`, data: 20 });
    await reach(server, "each", id, { status: "completed", result: [10, 20, 30] });
  });
});

const start = (config: Config): Promise<TestServer> => startTestServer("start", { config });

describe("who may send events, and how many", () => {
  const secret = "a secret of more than thirty-two bytes";
  const go = defineWorkflow({ id: "go" }).andWaitFor({ id: "wait", event: "go" });
  const as = async (sub: string) => ({ headers: { authorization: `Bearer ${await createToken({ sub }, secret)}` } });
  const beginAs = async (server: TestServer, sub: string) =>
    server.post("/workflows/go/execute", { input: {}, options: { executionId: sub } }, await as(sub));
  const statusOf = async (server: TestServer, sub: string) =>
    (await server.get(`/workflows/go/executions/${sub}/state`, await as(sub))).body.data.status;

  it("gives an event to executions of its sender only, and that of an anonymous caller to none, with ownership", async () => {
    const auth = jwtAuth({ secret, ownership: true, publicRoutes: ["POST /events"] });
    const server = await start(withBounds(bounds, { workflows: [go], auth }));
    for (const sub of ["ada", "bob"]) expect((await beginAs(server, sub)).body.data.status).toBe("suspended");
    expect((await server.post("/events", { name: "go", data: "anonymous" })).status).toBe(202);
    expect((await server.post("/events", { name: "go", data: "of bob" }, await as("bob"))).status).toBe(202);
    await eventually(async () => expect(await statusOf(server, "bob")).toBe("completed"));
    const { body } = await server.get("/workflows/go/executions/bob/state", await as("bob"));
    expect(body.data.result).toBe("of bob");
    // Both events came before this one, which Ada's execution takes first.
    expect((await server.post("/events", { name: "go", data: "of ada" }, await as("ada"))).status).toBe(202);
    await eventually(async () => expect(await statusOf(server, "ada")).toBe("completed"));
    const { body: own } = await server.get("/workflows/go/executions/ada/state", await as("ada"));
    expect(own.data.result).toBe("of ada");
  });

  it("asks authorize about event.send, and does not store a refused event", async () => {
    const asked: unknown[] = [];
    const server = await start(
      withBounds(bounds, {
        workflows: [go],
        auth: jwtAuth({ secret }),
        authorize({ action, user }) {
          if (action === "event.send") asked.push(user?.id);
          return action !== "event.send" || user?.id === "ada";
        },
      }),
    );
    expect((await beginAs(server, "bob")).body.data.status).toBe("suspended");
    const refused = await server.post("/events", { name: "go", data: "of bob", id: "e1" }, await as("bob"));
    expect([refused.status, refused.body.error]).toEqual([403, "Forbidden"]);
    expect((await server.post("/events", { name: "go", data: "of nobody" })).status).toBe(401);
    expect((await server.post("/events", { name: "go", data: "of ada", id: "e1" }, await as("ada"))).status).toBe(202);
    await eventually(async () => expect(await statusOf(server, "bob")).toBe("completed"));
    expect((await server.get("/workflows/go/executions/bob/state", await as("bob"))).body.data.result).toBe("of ada");
    expect(asked).toEqual(["bob", "ada"]);
  });

  it("answers a new event with 503 and Retry-After at limits.storedEvents, and a known one with 202", async () => {
    const server = await start(withBounds({ ...bounds, storedEvents: 6 }, { workflows: [go] })); // 3 of them for callers
    for (const id of ["a", "b", "c"]) expect((await server.post("/events", { name: "n", id })).status).toBe(202);
    const { status, body, headers } = await server.post("/events", { name: "n", id: "d" });
    expect([status, body.error, headers.get("retry-after")]).toEqual([503, "Too many events are stored", "60"]);
    expect((await server.post("/events", { name: "n", id: "a" })).status).toBe(202);
  });
});
