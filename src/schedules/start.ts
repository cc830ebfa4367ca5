import type { Engine } from "../engine/contract/engine.ts";
import { within } from "../core/clock.ts";
import { prepare, checkStarted } from "../workflows/executions.ts";
import { findWorkflow, type Workflows } from "../workflows/find.ts";
import type { ScheduleDefinition } from "./define.ts";

/** The part of a snapshot with the schedules. */
export interface Schedules extends Workflows {
  readonly schedules: ReadonlyMap<string, ScheduleDefinition>;
}

/** The prefix of all execution ids of a schedule. */
export const toPrefix = (id: string): string => `schedule:${id}:`;
/** The execution id of a tick. */
export const toTickId = (id: string, at: number): string => toPrefix(id) + new Date(at).toISOString();

/** An execution could not be made: its input, its user or the code of its workflow is wrong. Another try has the same end. */
export class RefusedStart extends Error {}

/** Starts the execution of a tick, if this version of the config has the schedule. */
export async function startTick(
  engine: Engine,
  version: Schedules & { hold(by: "request"): () => void },
  { id, at }: { readonly id: string; readonly at: number },
): Promise<void> {
  const schedule = version.schedules.get(id);
  if (!schedule) return;
  const release = version.hold("request");
  try {
    await startExecution(engine, version, schedule, { executionId: toTickId(id, at), at });
  } finally {
    release();
  }
}

/** Starts an execution of a schedule, for its user and the time of a tick. */
export async function startExecution(
  engine: Engine,
  snapshot: Workflows,
  { workflowId, caller, toInput }: ScheduleDefinition,
  { executionId, at }: { readonly executionId: string; readonly at: number },
): Promise<void> {
  const identity = { checked: true, ownership: false, caller };
  const origin = { begunBy: "server" } as const;
  async function make() {
    const workflow = findWorkflow(snapshot, workflowId);
    const input = await within(inputMs, Promise.resolve(toInput({ at: new Date(at) })), { onLate });
    const execution = await prepare(engine, workflow, input, { executionId, origin }, identity);
    return { workflow, execution };
  }
  const { workflow, execution } = await make().catch((cause: unknown) => {
    throw new RefusedStart("The execution cannot be made", { cause });
  });
  checkStarted(execution, await engine.begin(execution, workflow));
}

function onLate(): never {
  throw new Error("input: no answer within 10 seconds");
}
/** Time limit of a function that makes the input. */
const inputMs = 10_000;
