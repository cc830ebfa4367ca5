import { defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { startServer } from "../harness/server.ts";

describe("emit", () => {
  it("puts an event of the author's own on the live stream, and only there", async () => {
    const workflow = defineWorkflow({ id: "w" }).andThen({
      id: "s",
      execute({ emit }) {
        emit({ type: "progress", percent: 50, executionId: "forged", from: "forged" });
        for (const event of [{ type: "workflow-result" }, { type: "step-start" }, {}, { type: "x", n: 1n }]) {
          expect(() => emit(event as never)).toThrow(/^(emit|event)/);
        }
        return 1;
      },
    });
    const server = await startServer("in process", { config: { workflows: [workflow] } });
    const { events } = await server.post("/workflows/w/stream", { input: {}, options: { executionId: "e" } });
    expect(events.filter(({ type }) => type === "progress")).toEqual([
      { type: "progress", percent: 50, executionId: "e", from: "s", timestamp: expect.any(String) },
    ]);
    expect(
      (await server.get("/workflows/w/executions/e/stream")).events.filter(({ type }) => type === "progress"),
    ).toEqual([]);
    await server.close();
  });
});
