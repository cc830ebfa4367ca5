import { defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { run } from "./run.ts";

describe("a step", () => {
  it("inherits the workflow's retry", async () => {
    const { server, state } = await run(
      defineWorkflow({ id: "w", retry: { attempts: 3 } }).andThen({
        id: "s",
        execute({ attempt }) {
          if (attempt < 3) throw new Error(`attempt ${attempt}`);
          return attempt;
        },
      }),
    );
    expect(state).toMatchObject({ status: "completed", result: 3 });
    const { events } = await server.get("/workflows/w/executions/e/stream");
    expect(events.find(({ type }) => type === "step-complete")).toMatchObject({ from: "s", attempt: 3 });
    await server.close();
  });
});
