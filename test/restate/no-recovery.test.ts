import { randomUUID } from "node:crypto";
import { defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { unchecked } from "../../src/core/caller.ts";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import { begin } from "../../src/workflows/executions.ts";
import { resume } from "../../src/workflows/resume.ts";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { openEngine } from "./engine.ts";
import { query } from "./replica-process.ts";
import { freePort } from "./restate-server.ts";

/** Whether the last attempt of a drive was refused because its replica does not recover. */
async function isRefused(name: string, id: string): Promise<boolean> {
  const drive = `target_service_name = '${name}.drive' and target_service_key = '${id}'`;
  const rows = await query(`select last_failure from sys_invocation where ${drive}`);
  return JSON.stringify(rows).includes("was not started here");
}

it("a replica without recovery runs only what was started or resumed on it", { timeout: 4 * patienceMs }, async () => {
  const place = { name: `unrecovered-${randomUUID()}`, port: await freePort() };
  const ran: string[] = [];
  let hangs = true;
  const definition = defineWorkflow({ id: "hanging" }).andThen({
    id: "hangs",
    execute: ({ executionId }) => {
      ran.push(executionId);
      return hangs ? new Promise<string>(() => {}) : "done";
    },
  }) as unknown as WorkflowDefinition; // the chain is one
  const typesOf = async ({ engine }: Awaited<ReturnType<typeof openEngine>>, id: string): Promise<string[]> => {
    const types: string[] = [];
    for await (const { type } of engine.events(id, 0, AbortSignal.timeout(patienceMs))) types.push(type);
    return types;
  };

  const first = await openEngine(place, definition);
  for (const id of ["left", "cancelled", "resumed"])
    await begin(first.engine, first.runnable, {}, { executionId: id }, unchecked);
  await until(() => ran.length === 3, "the steps to run");
  await first.engine.close({ drainMs: 0 });

  hangs = false;
  ran.length = 0;
  const second = await openEngine(place, definition, undefined, false);
  const { engine, runnable } = second;
  await begin(engine, runnable, {}, { executionId: "new" }, unchecked);
  expect(await engine.settled("new", 0)).toMatchObject({ status: "completed" });
  expect(await engine.cancel("cancelled", "no more")).toMatchObject({ status: "error" });
  const suspended = await engine.suspend("resumed", "for now");
  expect(suspended).toMatchObject({ status: "suspended" });
  const { epoch } = await resume(engine, runnable, suspended || undefined!, {});
  expect(await engine.settled("resumed", epoch)).toMatchObject({ status: "completed" });
  await until(() => isRefused(place.name, "left"), "Restate to offer the execution that was left");
  expect(await engine.state("left")).toMatchObject({ status: "running" });
  expect(ran.toSorted()).toEqual(["new", "resumed"]);
  await engine.close({ drainMs: 0 });

  const third = await openEngine(place, definition);
  expect(await third.engine.settled("left", 0)).toMatchObject({ status: "completed" });
  expect(ran.toSorted()).toEqual(["left", "new", "resumed"]);
  expect(await typesOf(third, "cancelled")).toEqual(["workflow-start", "step-start", "workflow-error"]);
  await third.engine.close({ drainMs: 0 });
});
