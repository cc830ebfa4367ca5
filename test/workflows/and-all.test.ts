import { andAll, andRace, andWhen, defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { run } from "./run.ts";

describe("a step", () => {
  it("may branch into nothing", async () => {
    const { server, state } = await run(
      defineWorkflow({ id: "w" })
        .andAll({ id: "none", steps: [] })
        .andWhen({
          id: "no",
          condition: () => false,
          step: andRace({ id: "r", steps: [andAll({ id: "x", steps: [] })] }),
        }),
    );
    expect(state).toMatchObject({ status: "completed", result: [] });
    await server.close();
    void andWhen;
  });
});
