import { defineWorkflow } from "../../src/index.ts";
import { restate } from "../../src/backends/restate/define.ts";
import type { Logger } from "../../src/core/log.ts";
import { createProgram } from "../../src/engine/attempts/live-walk.ts";
import type { CreateWalk } from "../../src/engine/attempts/walk.ts";
import type { Backend } from "../../src/engine/contract/backend.ts";
import type { Engine } from "../../src/engine/contract/engine.ts";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import type { Runnable } from "../../src/workflows/executions.ts";
import { noRuntime } from "../harness/no-runtime.ts";
import { noTracer } from "../harness/tracer.ts";
import { patientTimeouts } from "../harness/patience.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;
const limits = { runningExecutions: 256, queuedExecutions: 1_024, waitingExecutions: 10, sseBufferBytes: 1_048_576 };
const ignore = (): void => {};
const logger = Object.fromEntries(
  ["trace", "debug", "info", "warn", "error", "fatal"].map((level) => [level, ignore]),
) as unknown as Logger;

type ToFaulty = (createWalk: CreateWalk) => CreateWalk;
interface Opened {
  readonly engine: Engine;
  readonly runnable: Runnable;
}

/** The options of a module whose engine dies at a certain place. */
export interface Dying {
  readonly name: string;
  readonly port: number;
  readonly fault: string;
}

/** An engine without a server around it, which runs one workflow. `toFaulty` may put faults into its walks. */
export function openEngine(
  place: { name: string; port: number },
  definition: WorkflowDefinition,
  toFaulty?: ToFaulty,
  recovers = true,
): Promise<Opened> {
  const { name, port } = place;
  return openOn(
    restate({ ingress, admin, name, serve: { port }, timeouts: patientTimeouts }),
    definition,
    toFaulty,
    recovers,
  );
}

export async function openOn(
  backend: Backend,
  definition: WorkflowDefinition,
  toFaulty: ToFaulty = (createWalk) => createWalk,
  recovers = true,
): Promise<Opened> {
  const { engine } = backend.open({
    root: process.cwd(),
    ...limits,
    executionBytes: 67_108_864,
    conversationBytes: 33_554_432,
    logger,
  });
  const program = createProgram({
    workflow: definition,
    logger,
    tracer: noTracer,
    ask: async () => "",
    createRuntime: noRuntime,
    stepTimeoutMs: 60_000,
    loopItems: 1_000,
    loopConcurrency: 100,
    inlineSleepMs: 5_000,
    stepValueBytes: 4_194_304,
    hold: () => () => {},
  });
  const runnable = { ...program, definition, createWalk: toFaulty(program.createWalk) };
  await engine.open();
  await engine.recover(recovers ? (id) => (id === definition.id ? runnable : undefined) : undefined);
  return { engine, runnable };
}

/** A workflow that suspends itself. The second version has one more step behind it. */
export function asking(version: 1 | 2, ran: (step: string) => void): WorkflowDefinition {
  const first = defineWorkflow({ id: "asking" })
    .andThen({ id: "first", execute: () => (ran("first"), 1) })
    .andThen({
      id: "ask",
      execute: ({ data, suspend, resumeData }) => {
        ran("ask");
        return resumeData === undefined ? suspend("Why") : [data, resumeData];
      },
    });
  const last = version === 1 ? first : first.andThen({ id: "more", execute: ({ data }) => (ran("more"), data) });
  return last as unknown as WorkflowDefinition; // the chain is one
}
