import { defineWorkflow, embedded, type Config } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { startServer, startTestServer } from "../harness/server.ts";
import { newFile } from "../harness/folders.ts";

it("fails a step whose value takes an execution over limits.executionBytes, also after a restart", async () => {
  const workflow = defineWorkflow({ id: "w", input: v.object({ text: v.string() }) })
    .andThen({ id: "one", execute: () => "x".repeat(3_000) })
    .andThen({ id: "ask", execute: ({ resumeData, suspend }) => resumeData ?? suspend("?") })
    .andThen({ id: "two", execute: () => "y".repeat(3_000) })
    .andThen({ id: "three", retry: { attempts: 3 }, execute: () => (runs++, "z".repeat(3_000)) });
  let runs = 0;
  const config: Config = {
    workflows: [workflow],
    backend: embedded({ path: newFile() }),
    server: { limits: { executionBytes: 10_000 } },
  };
  const first = await startServer("in process", { config });
  const input = { text: "i".repeat(2_000) };
  await first.post("/workflows/w/execute", { input, options: { executionId: "x" } });
  await first.close();
  const second = await startTestServer("in process", { config });
  const answer = await second.post("/workflows/w/executions/x/resume", { resumeData: true });
  expect([answer.status, answer.body.error]).toEqual([500, "Failed to execute workflow"]);
  const { body } = await second.get("/workflows/w/executions/x/state");
  expect(body.data).toMatchObject({
    status: "error",
    error: "The values of the execution take more than 10000 bytes (limits.executionBytes)",
  });
  const { events } = await second.get("/workflows/w/executions/x/stream");
  const completed = events.filter(({ type }) => type === "step-complete").map(({ from }) => from);
  expect(completed).toEqual(["one", "ask", "two"]);
  expect(runs, "the same value would be too large again").toBe(1);
});
