import { defineWorkflow } from "agentserve";
import { describe, expect, it, vi } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { startTestServer } from "../harness/server.ts";

describe("a value that JSON keeps", () => {
  it("gives every step its own copy of values; undefined stays undefined, undefined properties go", async () => {
    const seen: unknown[] = [];
    const workflow = defineWorkflow({ id: "w" })
      .andThen({ id: "a", execute: () => ({ list: [1], gone: undefined }) })
      .andThen({
        id: "b",
        execute({ data, input, context }) {
          data.list.push(2);
          input["spoiled"] = true;
          (context.get("shared") as unknown[]).push("spoiled");
        },
      })
      .andThen({
        id: "c",
        execute({ data, getStepData, input, context }) {
          (getStepData("a") as { list: number[] }).list.push(3);
          seen.push(data, getStepData("a"), input, context.get("shared"), getStepData("b"), getStepData("nobody"));
          return null;
        },
      });
    const server = await startTestServer("in process", { config: { workflows: [workflow] } });
    const { body } = await server.post("/workflows/w/execute", {
      input: { n: 1 },
      options: { context: { shared: [] } },
    });
    expect(seen).toEqual([undefined, { list: [1] }, { n: 1 }, [], undefined, undefined]);
    expect(body.data.result).toBeNull();
  });
});

it("gives code that is in flight the outputs that it began with, also after the execution went back twice", async () => {
  const seen: unknown[] = [];
  const [reached, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let runs = 0;
  const workflow = defineWorkflow({ id: "w" })
    .andThen({ id: "a", execute: () => (runs++ === 0 ? "first" : new Promise<string>(() => {})) })
    .andThen({
      id: "b",
      async execute({ getStepData }) {
        reached.resolve();
        await opened.promise;
        seen.push(getStepData("a"));
      },
    });
  const config = { workflows: [workflow], server: { limits: { drainMs: 10 } } };
  const server = await startTestServer("in process", { config });
  const later = { headers: { prefer: "respond-async" } };
  await server.post("/workflows/w/execute", { input: {}, options: { executionId: "x" } }, later);
  await reached.promise;
  for (const expected of [2, 3]) {
    await server.post("/workflows/w/executions/x/suspend", {});
    await server.post("/workflows/w/executions/x/resume", { options: { stepId: "a" } }, later);
    await vi.waitFor(() => expect(runs).toBe(expected), { timeout: patienceMs });
  }
  opened.resolve();
  await vi.waitFor(() => expect(seen).toEqual(["first"]), { timeout: patienceMs });
});
