import { randomUUID } from "node:crypto";
import { expect, it, onTestFinished } from "vitest";
import { unchecked } from "../../src/core/caller.ts";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import { defineWorkflow } from "../../src/index.ts";
import { begin } from "../../src/workflows/executions.ts";
import { resume } from "../../src/workflows/resume.ts";
import { patienceMs } from "../harness/patience.ts";
import { openEngine } from "./engine.ts";
import { freePort } from "./restate-server.ts";

const definition = defineWorkflow({ id: "long" })
  .andThen({ id: "first", execute: () => "x".repeat(5_000) })
  .andThen({
    id: "ask",
    execute: ({ data, suspend, resumeData }) => (resumeData === undefined ? suspend("Why") : data),
  })
  .andThen({
    id: "measure",
    execute: ({ data, getStepData }) => [data.length, (getStepData("first") as string).length],
  }) as unknown as WorkflowDefinition;

it("steps behind a resume get a value of several KB from before it", { timeout: 2 * patienceMs }, async () => {
  const place = { name: `long-${randomUUID()}`, port: await freePort() };
  const { engine, runnable } = await openEngine(place, definition);
  onTestFinished(() => engine.close({ drainMs: 0 }));
  await begin(engine, runnable, {}, { executionId: "x" }, unchecked);
  const state = await engine.settled("x", 0, AbortSignal.timeout(patienceMs));
  const { epoch } = await resume(engine, runnable, state!, { resumeData: 2 });
  expect(await engine.settled("x", epoch)).toMatchObject({ status: "completed", last: { result: "[5000,5000]" } });
});
