import { defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { run } from "./run.ts";

describe("a step", () => {
  it("that catches its own suspension is suspended all the same", async () => {
    const { server, answer } = await run(
      defineWorkflow({ id: "w" }).andThen({
        id: "s",
        async execute({ suspend, resumeData }) {
          try {
            return resumeData ?? (await suspend("caught?"));
          } catch {
            return "swallowed";
          }
        },
      }),
    );
    expect(answer.body.data).toMatchObject({ status: "suspended", suspension: { reason: "caught?" } });
    await server.close();
  });
});
