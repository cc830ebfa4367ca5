import { defineWorkflow, type Config } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { startTestServer } from "../harness/server.ts";

it("takes values of exactly limits.executionBytes, and not one byte more", async () => {
  // The input, as it is stored, and a text with its quotes.
  const workflow = defineWorkflow({ id: "w", input: v.object({ length: v.number() }) }).andThen({
    id: "text",
    execute: ({ data }) => "x".repeat(data.length - 2 - JSON.stringify(data).length),
  });
  const config: Config = {
    workflows: [workflow],
    server: { limits: { executionBytes: 5_000 } },
  };
  const server = await startTestServer("in process", { config });
  const run = (length: number) => server.post("/workflows/w/execute", { input: { length } });
  expect([(await run(5_000)).status, (await run(5_001)).status]).toEqual([200, 500]);
});
