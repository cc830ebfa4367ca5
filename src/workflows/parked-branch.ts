import { ServeError } from "../core/error.ts";
import { toIso } from "../core/iso-time.ts";
import type { Engine } from "../engine/contract/engine.ts";
import type { WorkflowDefinition } from "../engine/definition/definition.ts";
import type { ExecutionState, ParkedBranch } from "../engine/execution.ts";
import { readSteps } from "../engine/steps/read-steps.ts";
import { isForPerson } from "../engine/walk/pending.ts";
import { findStep } from "./find-step.ts";
import { toDescribed } from "./history/former-executions.ts";

/** The part of a waiting branch that a resume reads. */
export type WaitingBranch = Pick<ParkedBranch, "stepId" | "key" | "kind" | "due" | "isSkippable"> & {
  readonly event?: Pick<NonNullable<ParkedBranch["event"]>, "name"> | undefined;
};

/**
 * The branch that a resume continues: the named one, else the first that waits for a person. Throws a 409 if it waits
 * for a time or an event.
 */
export async function findBranch(
  engine: Engine,
  definition: WorkflowDefinition,
  state: ExecutionState,
  stepId: string | undefined,
): Promise<WaitingBranch | undefined> {
  const { last } = state;
  const pending = last?.to === "suspended" ? last.pending : [];
  const found =
    stepId === undefined
      ? (pending.find(isForPerson) ?? pending[0])
      : await findWaiting(engine, definition, state, stepId);
  if (!found || isForPerson(found) || (found.isSkippable && stepId !== undefined)) return found;
  const { event, due } = found;
  const text = event ? `waits for the event ${event.name}` : `sleeps until ${toIso(due!.at)}`;
  throw new ServeError(409, `Execution ${state.execution.id} ${text}`);
}

/** Finds the waiting branch of a step. The journal has the branches that a long suspension does not list. */
export async function findWaiting(
  engine: Engine,
  definition: WorkflowDefinition,
  { execution, last }: ExecutionState,
  stepId: string,
): Promise<WaitingBranch | undefined> {
  if (last?.to !== "suspended") return undefined;
  const listed = last.pending.find((one) => one.stepId === stepId);
  if (listed || last.pendingCount === undefined) return listed;
  const [step] = await readSteps(engine, toDescribed(execution), { path: stepId, status: "suspended" });
  const parked = step?.suspension;
  if (!parked) return undefined;
  const { kind, wakeKey: key, dueAt, event } = parked;
  return {
    stepId,
    kind,
    key,
    due: dueAt === undefined ? undefined : { at: dueAt },
    event: event === undefined ? undefined : { name: event },
    isSkippable: findStep(definition, stepId)?.step.skippable || undefined,
  };
}
