import { andThen, defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { createProgram } from "../../src/engine/attempts/live-walk.ts";
import { codelessHost } from "../../src/engine/attempts/walk.ts";
import type { Execution } from "../../src/engine/execution.ts";
import { readPosition } from "../../src/engine/steps/read-steps.ts";
import { createTestLogger } from "../harness/server.ts";
import { programOptions } from "./trees/play/world.ts";

const step = (id: string) => andThen({ id, execute: ({ data }) => data });
const definition = defineWorkflow({ id: "w" })
  .andThen({ id: "first", execute: ({ data }) => data })
  .andAll({ id: "all", steps: [step("left"), step("right")] });
const program = createProgram(programOptions(definition, createTestLogger([])));
const { steps } = program;
const execution: Execution = { id: "x", workflowId: "w", input: "{}", context: {}, startAt: 0, steps };

it("names the first of several steps in flight as the place of an execution, as its walk does", async () => {
  const walk = program.createWalk(execution, { ...codelessHost, readRow: () => undefined });
  const start = walk.next();
  const { key } = start.starts[0]!;
  const { events } = walk.next({ key, result: { at: 1, value: "{}" } });
  const row = { id: 1, key, kind: "value", at: 1, body: "{}" } as const;
  const rows = [
    { at: 0, events: start.events },
    { row, at: 1, events },
  ];
  expect(await readPosition(execution, [rows], undefined)).toEqual(walk.position());
  expect(walk.position()).toEqual({ stepId: "left", stepIndex: 1 });
});

it("names the step that a fork begins with as its place, before the fork has rows", async () => {
  const fork = { ...execution, fork: { from: "y", stepIndex: 1, startAt: 0 } };
  expect(await readPosition(fork, [], undefined)).toEqual({ stepId: "all", stepIndex: 1 });
});
