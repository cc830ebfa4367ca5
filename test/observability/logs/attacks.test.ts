import { describe, expect, it } from "vitest";
import { createToken, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { toLogger } from "../../../src/core/log.ts";
import { runInScope } from "../../../src/core/scope.ts";
import { createLogs, type LogsOptions } from "../../../src/observability/logs.ts";
import { toHost } from "../../../src/observability/log-output.ts";
import { startTestServer } from "../../harness/server.ts";

const create = (output: LogsOptions["output"] = () => {}, limits = { logRecords: 1_000, logBytes: 10_000_000 }) =>
  createLogs({ ...limits, output });
const lastOf = ({ ring }: ReturnType<typeof create>) => JSON.parse(ring.get(ring.next - 1)!.text);

it("does not throw to a caller when the logger of the host throws or rejects", async () => {
  for (const fail of [
    () => {
      throw new Error("no");
    },
    async () => {
      throw new Error("later");
    },
  ]) {
    const logs = create(toHost({ info: fail, warn: fail, error: fail }));
    logs.logger.error('with "?token=x" in it');
    expect(lastOf(logs).message).toBe('with "?token=[redacted]" in it');
  }
});

describe("what a record belongs to", () => {
  it("takes the ids of a record from its scope, not from the data of a client", async () => {
    const config: Config = {
      auth: jwtAuth({ secret: "a secret of at least thirty-two bytes" }),
      configureApp: (app) =>
        void app.post("/order", async (event) => {
          event.context.logger!.info("Order", { ...((await event.req.json()) as object), price: 12 });
          return "ok";
        }),
    };
    const server = await startTestServer("in process", { config });
    await server.post("/order", { executionId: "zz", userId: "admin", requestId: "forged" }, { custom: true });
    expect((await server.get("/api/logs?executionId=zz")).body.data).toEqual([]);
    const [record] = (await server.get("/api/logs")).body.data;
    expect(record).toEqual({
      seq: 1,
      timestamp: expect.any(String),
      level: "info",
      message: "Order",
      requestId: expect.not.stringMatching("forged"),
    });
  });

  it("gives each record the user of its own execution, while others run", async () => {
    const secret = "a secret of at least thirty-two bytes";
    const noisy = defineWorkflow({ id: "noisy" })
      .andThen({ id: "one", execute: ({ logger, context }) => logger.info("One", { who: context.get("userId") }) })
      .andThen({ id: "two", execute: ({ logger, context }) => logger.info("Two", { who: context.get("userId") }) });
    const server = await startTestServer("in process", { config: { workflows: [noisy], auth: jwtAuth({ secret }) } });
    const people = ["ada", "bob", "eve", "kim"];
    await Promise.all(
      people.flatMap((sub) =>
        Array.from({ length: 5 }, async () => {
          const headers = { authorization: `Bearer ${await createToken({ sub }, secret)}` };
          await server.post("/workflows/noisy/execute", { input: {} }, { headers });
        }),
      ),
    );
    const headers = { authorization: `Bearer ${await createToken({ sub: "ada" }, secret)}` };
    const { data } = (await server.get("/api/logs?workflowId=noisy&limit=1000", { headers })).body;
    expect(data).toHaveLength(40);
    for (const record of data) expect([record.data.who, record.requestId]).toEqual([record.userId, undefined]);
  });

  it("cuts the ids of a record after 256 letters", () => {
    const logs = create();
    runInScope({ conversationId: "c".repeat(100_000) }, () => logs.logger.info("Long"));
    expect(lastOf(logs).conversationId).toHaveLength(256);
  });

  it("gives the records of a stream the id of its request", async () => {
    const { defineAgent } = await import("agentserve");
    const { echoModel } = await import("agentserve/models");
    const agent = defineAgent({
      id: "echo",
      instructions: "",
      model: echoModel(),
      hooks: { onEnd: ({ context }) => context.logger.info("Over") },
    });
    const server = await startTestServer("start", { config: { agents: [agent] } });
    const answer = await server.post("/agents/echo/stream", { input: "hi" });
    const [record] = (await server.get("/api/logs?agentId=echo")).body.data;
    expect([record.message, record.requestId]).toEqual(["Over", answer.headers.get("x-request-id")]);
  });
});

describe("a reader", () => {
  it("wakes the readers of the log once, after the turn of the event loop, until they stop", async () => {
    const logs = create();
    let woken = 0;
    const stops = Array.from({ length: 1_000 }, () => logs.listen(() => woken++));
    const turns = async () => {
      for (let n = 0; n < 2; n++) await new Promise((resolve) => setImmediate(resolve));
    };
    for (let n = 0; n < 100; n++) logs.logger.info("x");
    expect(woken).toBe(0);
    await turns();
    expect(woken).toBe(1_000);
    for (const stop of stops) stop();
    logs.logger.info("x");
    await turns();
    expect(woken).toBe(1_000);
  });

  it("answers GET /api/logs with at most two megabytes, the newest records", async () => {
    const config: Config = {
      configureApp: (app) =>
        void app.get("/fill", ({ context: { logger } }) => {
          for (let n = 0; n < 500; n++) logger!.info("x".repeat(16_000), { n });
          return "ok";
        }),
    };
    const server = await startTestServer("in process", { config });
    await server.get("/fill", { custom: true });
    const { text, body } = await server.get("/api/logs?limit=1000");
    expect(Buffer.byteLength(text)).toBeLessThan(2_200_000);
    expect(body.data.at(-1).data.n).toBe(499);
    expect(body.data.length).toBeGreaterThan(100);
  });
});

it("a logger has a function for each level, and nothing else", () => {
  expect(Object.keys(toLogger(() => {}))).toEqual(["trace", "debug", "info", "warn", "error", "fatal"]);
});
