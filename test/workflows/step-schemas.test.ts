import { defineWorkflow } from "agentserve";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { run } from "./run.ts";

describe("a step", () => {
  it.each([
    ["inputSchema", { inputSchema: v.object({ n: v.number() }) }, "s: invalid input: n: "],
    ["outputSchema", { outputSchema: v.string() }, "s: invalid output: "],
  ])("is held to its %s at run time", async (_, schemas, error) => {
    const { server, state } = await run(
      defineWorkflow({ id: "w" }).andThen({ id: "s", ...schemas, execute: () => 1 } as never),
    );
    expect(state).toMatchObject({ status: "error", error: expect.stringContaining(error) });
    await server.close();
  });

  it("is held to the workflow's suspendSchema and result at run time", async () => {
    const suspends = await run(
      defineWorkflow({ id: "w", suspendSchema: v.string() }).andThen({
        id: "s",
        execute: ({ suspend }) => suspend("x", 1 as never),
      }),
    );
    expect(suspends.state.error).toMatch(/^s: invalid suspend data: /);
    await suspends.server.close();
    const results = await run(defineWorkflow({ id: "w", result: v.string() }).andThen({ id: "s", execute: () => 1 }));
    expect(results.state.error).toMatch(/invalid result: /);
    await results.server.close();
  });
});
