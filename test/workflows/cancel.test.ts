import { defineWorkflow } from "agentserve";
import { describe, expect, it, vi } from "vitest";
import { chosenBackend } from "../harness/backends.ts";
import { startServer } from "../harness/server.ts";

describe("a step", () => {
  it("that never settles can be cancelled", async () => {
    const aborted = vi.fn();
    const started = Promise.withResolvers<void>();
    const hangs = defineWorkflow({ id: "w" }).andThen({
      id: "hangs",
      execute: ({ signal }) => {
        signal.addEventListener("abort", aborted);
        started.resolve();
        return new Promise(() => {});
      },
    });
    const server = await startServer("start", { config: { workflows: [hangs] } });
    const waiting = server.post("/workflows/w/execute", { input: {}, options: { executionId: "e" } });
    await started.promise;
    await server.post("/workflows/w/executions/e/cancel", {});
    expect((await waiting).status).toBe(409);
    // A replica that drives the execution hears of the cancel a moment after its answer.
    if (chosenBackend.isDistributed) await expect.poll(() => aborted.mock.calls.length).toBe(1);
    expect(aborted).toHaveBeenCalledTimes(1);
    await server.close();
  });
});
