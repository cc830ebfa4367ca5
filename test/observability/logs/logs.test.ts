import { describe, expect, it } from "vitest";
import * as v from "valibot";
import { createToken, defineAgent, defineTool, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { describeServer, startServer, type TestServer } from "../../harness/server.ts";

const secret = "a secret of at least thirty-two bytes";
const tokenOf = async (sub: string) => ({ authorization: `Bearer ${await createToken({ sub }, secret)}` });

const look = defineTool({
  description: "Looks",
  inputSchema: v.object({}),
  execute: (_, { context }) => {
    context.logger.info("Looking", { where: "there" });
    return "seen";
  },
});
const agent = () =>
  defineAgent({
    id: "eye",
    instructions: "",
    model: scriptedModel([{ toolCalls: [{ toolName: "look", input: {} }] }, "done"]),
    tools: { look },
    hooks: { onStart: ({ context }) => context.logger.debug("Beginning") },
  });
const talk = defineWorkflow({ id: "talk" }).andThen({
  id: "say",
  execute: ({ logger }) => {
    logger.trace("Very quiet");
    logger.info("Saying", { password: "hunter2hunter2", n: 1 });
    throw new Error("a reason of its own");
  },
});
const ask = (watcher = agent()) =>
  defineWorkflow({ id: "ask" }).andAgent({ id: "agent", agent: watcher, prompt: "look" });
const config: () => Config = () => ({
  agents: [agent()],
  workflows: [talk, ask()],
  configureApp: (app) =>
    void app.get("/mine", (event) => {
      event.context.logger!.warn("Mine", { a: 1 });
      return "ok";
    }),
});
const run = (server: TestServer, id: string, headers = {}, executionId = `${id}-1`) =>
  server.post(`/workflows/${id}/execute`, { input: {}, options: { executionId, conversationId: "c" } }, { headers });

describeServer("GET /api/logs", { config: config(), only: ["start"] }, (server) => {
  it("lists records with the ids of their request, execution, step and agent, oldest first", async () => {
    expect((await run(server, "talk")).status).toBe(500);
    await run(server, "ask");
    const mine = await server.get("/mine", { custom: true });
    const records = (await server.get("/api/logs")).body.data;
    const of = (message: string) => records.find((record: { message: string }) => record.message === message);
    const step = { workflowId: "talk", executionId: "talk-1", stepId: "say", conversationId: "c" };
    const common = { seq: expect.any(Number), timestamp: expect.stringMatching(/^\d{4}-.*Z$/) };
    expect(of("Very quiet")).toEqual({ ...common, ...step, level: "trace", message: "Very quiet" });
    expect(of("Saying")).toEqual({
      ...common,
      ...step,
      level: "info",
      message: "Saying",
      data: { password: "[redacted]", n: 1 },
    });
    expect(of("Step failed")).toMatchObject({
      ...step,
      level: "error",
      error: expect.stringContaining("a reason of its own"),
    });
    const inside = { workflowId: "ask", executionId: "ask-1", stepId: "agent", agentId: "eye", conversationId: "c" };
    expect(of("Looking")).toMatchObject({ ...inside, data: { where: "there", operationId: expect.any(String) } });
    expect(of("Beginning")).toMatchObject(inside);
    expect(of("Mine")).toMatchObject({ level: "warn", requestId: mine.headers.get("x-request-id"), data: { a: 1 } });
    const numbers = records.map(({ seq }: { seq: number }) => seq);
    expect(numbers).toEqual(numbers.toSorted((a: number, b: number) => a - b));
    expect(records.every((record: object) => !("requestId" in record && "executionId" in record))).toBe(true);
  });
});

describe("what anonymous readers see", () => {
  const start = async (more: object) => {
    const server = await startServer("in process", { config: { ...config(), auth: jwtAuth({ secret, ...more }) } });
    await run(server, "talk", await tokenOf("ada"));
    return server;
  };
  const masked = { level: "info", message: "Saying", workflowId: "talk", stepId: "say" };
  const whole = { ...masked, executionId: "talk-1", userId: "ada", data: expect.anything() };
  const saying = async (server: TestServer, query: string, headers = {}) => {
    const { body } = await server.get(`/api/logs?${query}`, { headers });
    const {
      seq: _,
      timestamp: _at,
      ...rest
    } = body.data.find((record: { message: string }) => record.message === "Saying");
    return rest;
  };

  it("masks records for anonymous readers, unless they name the execution", async () => {
    const server = await start({});
    expect(await saying(server, "workflowId=talk")).toEqual(masked);
    expect(await saying(server, "executionId=talk-1")).toMatchObject(whole);
    expect(await saying(server, "workflowId=talk", await tokenOf("bob"))).toMatchObject(whole);
    await server.close();
  });
  it("masks records for everyone but their user, with ownership", async () => {
    const server = await start({ ownership: true });
    expect(await saying(server, "workflowId=talk")).toEqual(masked);
    expect(await saying(server, "workflowId=talk", await tokenOf("bob"))).toEqual(masked);
    for (const headers of [{}, await tokenOf("bob")])
      // whether there is such an execution is nobody else's business
      expect((await server.get("/api/logs?executionId=talk-1", { headers })).body.data).toEqual([]);
    expect(await saying(server, "executionId=talk-1", await tokenOf("ada"))).toMatchObject(whole);
    expect(await saying(server, "workflowId=talk", await tokenOf("ada"))).toMatchObject(whole);
    await server.get("/mine", { custom: true });
    const [mine] = (await server.get("/api/logs?level=warn&limit=1")).body.data; // a record without a user
    expect([mine.message, mine.data]).toEqual(["Mine", undefined]);
    await server.close();
  });
});

describeServer("/ws/logs", { config: config(), only: ["start"] }, (server) => {
  it("sends the matching records over /ws/logs, then new ones", async () => {
    await run(server, "talk", {}, "one");
    const socket = await server.socket("/ws/logs?executionId=one&level=info");
    const snapshot = await socket.next();
    expect(snapshot).toMatchObject({
      type: "LOGS_SNAPSHOT",
      success: true,
      data: [{ message: "Saying" }, { message: "Step failed" }],
    });
    const other = await server.socket("/ws/logs?executionId=two&limit=5");
    expect(await other.next()).toEqual({ type: "LOGS_SNAPSHOT", success: true, data: [] });
    await run(server, "talk", {}, "two");
    for (const message of ["Very quiet", "Saying", "Step failed"])
      expect(await other.next()).toMatchObject({ type: "LOG", success: true, data: { message, executionId: "two" } });
    other.send('{"type":"PING"}');
    expect(await other.next()).toEqual({ type: "PONG", success: true });
    for (const bad of ["{", "3", "null", '{"type":"x"}']) {
      other.send(bad);
      expect(await other.next()).toEqual({ type: "ERROR", success: false, error: expect.any(String) });
    }
    socket.send('{"type":"PING"}'); // and nothing of the other execution before it
    expect(await socket.next()).toEqual({ type: "PONG", success: true });
    socket.close();
    other.close();
  });
});
