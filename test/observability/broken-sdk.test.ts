import { context, trace } from "@opentelemetry/api";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { expect, it } from "vitest";
import { defineWorkflow } from "agentserve";
import { startServer } from "../harness/server.ts";

it.each(["onStart", "onEnd"] as const)("an SDK whose %s throws stops nothing", async (broken) => {
  let thrown = 0;
  const processor = {
    onStart() {},
    onEnd() {},
    forceFlush: async () => {},
    shutdown: async () => {},
    [broken]() {
      thrown++;
      throw new Error("of the SDK");
    },
  };
  const provider = new NodeTracerProvider({ spanProcessors: [processor] });
  provider.register();
  const two = defineWorkflow({ id: "two" })
    .andThen({ id: "one", execute: () => 1 })
    .andThen({ id: "two", execute: () => 2 });
  const server = await startServer("start", { config: { workflows: [two] } });
  const { status, body } = await server.post("/workflows/two/execute", { input: {} });
  expect([status, body.data.result]).toEqual([200, 2]);
  expect(thrown).toBeGreaterThan(2);
  await server.close();
  await provider.shutdown();
  trace.disable();
  context.disable();
});
