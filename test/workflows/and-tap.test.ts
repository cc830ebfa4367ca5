import { andThen, defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { run } from "./run.ts";

describe("a step", () => {
  it("of type andTap is logged when it fails, and changes nothing; a condition that throws fails", async () => {
    const tap = await run(
      defineWorkflow({ id: "w" }).andTap({ id: "t", execute: () => Promise.reject(new Error("tapped")) }),
    );
    expect(tap.state).toMatchObject({ status: "completed", result: {} });
    expect(tap.server.logs).toMatchObject([
      {
        level: "error",
        message: "Step failed",
        data: { error: new Error("tapped"), stepId: "t", executionId: "e", workflowId: "w" },
      },
    ]);
    await tap.server.close();
    const when = await run(
      defineWorkflow({ id: "w" }).andWhen({
        id: "c",
        condition: () => {
          throw new Error("unknowable");
        },
        step: andThen({ id: "s", execute: () => 1 }),
      }),
    );
    expect(when.state).toMatchObject({ status: "error", error: "unknowable" });
    await when.server.close();
    const suspends = await run(
      defineWorkflow({ id: "w" }).andTap({
        id: "t",
        execute: (context) => (context as never as { suspend(): void }).suspend(),
      }),
    );
    expect(suspends.state.status).toBe("completed");
    await suspends.server.close();
  });
});
