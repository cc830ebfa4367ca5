import { defineWorkflow } from "agentserve";
import { describe, expect, it, vi } from "vitest";
import { startServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

describe("a step", () => {
  it("that never settles can be cancelled", async () => {
    const aborted = vi.fn();
    const hangs = defineWorkflow({ id: "w" }).andThen({
      id: "hangs",
      execute: ({ signal }) => new Promise(() => signal.addEventListener("abort", aborted)),
    });
    const server = await startServer("start", { config: { workflows: [hangs] } });
    const waiting = server.post("/workflows/w/execute", { input: {}, options: { executionId: "e" } });
    await eventually(async () => expect((await server.get("/workflows/w/executions/e/state")).status).toBe(200));
    await server.post("/workflows/w/executions/e/cancel", {});
    expect((await waiting).status).toBe(409);
    expect(aborted).toHaveBeenCalledTimes(1);
    await server.close();
  });
});
