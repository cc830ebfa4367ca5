import { setTimeout as sleep } from "node:timers/promises";
import type { JsonSchema } from "../../core/schemas/json-schema.ts";
import { isObject, toObject } from "../../core/json.ts";
import type { Client } from "./client.ts";
import type { Execution } from "./execution.ts";
import { ConnectionError, RefusalError } from "./failure.ts";
import type { Wait } from "./wait-text.ts";

/** A step that waits for an answer, a time or an event. */
export interface PendingStep extends Wait {
  readonly stepId: string;
  readonly reason: string;
  readonly data?: unknown;
  readonly suspendedAt: string;
  /** The number of other steps that wait. */
  readonly others: number;
}

/** Returns the first step that waits. */
export function toPendingStep(suspension: unknown): PendingStep {
  const { pendingCount } = toObject(suspension);
  const all = toBranches(suspension);
  const count = typeof pendingCount === "number" ? pendingCount : all.length;
  const { stepId, reason, data, kind, wakeAt, deadline, event, key, suspendedAt } = all[0]!;
  return {
    kind,
    wakeAt,
    deadline,
    event,
    key,
    stepId: String(stepId ?? ""),
    reason: String(reason ?? ""),
    ...(data !== undefined && { data }),
    suspendedAt: String(suspendedAt ?? ""),
    others: Math.max(count - 1, 0),
  };
}

/** Every branch that waits, the first one first. */
function toBranches(suspension: unknown): readonly Record<string, unknown>[] {
  const { pending, ...first } = toObject(suspension);
  return Array.isArray(pending) && pending.length > 0 ? pending.map(toObject) : [first];
}

/** Returns the answer schema: of the step, or else of the nearest workflow around it. Undefined if none is visible. */
export async function findResumeSchema(
  client: Client,
  workflowId: string,
  stepId: string,
): Promise<JsonSchema | undefined> {
  const detail = toObject(await client.get(`/workflows/${workflowId}`).catch(() => undefined));
  const around = [detail, ...(findSteps(detail["steps"], stepId.split("/"), 0) ?? [])];
  return around.map((one) => one["resumeSchema"]).findLast(isObject);
}

/** Finds the steps of a path, the outermost first: sub-workflows and loops, then the step itself. */
function findSteps(steps: unknown, path: readonly string[], depth: number): Record<string, unknown>[] | undefined {
  if (!Array.isArray(steps) || depth > 32) return undefined;
  const [head, ...rest] = path;
  for (const step of steps.map(toObject)) {
    const isOwn = step["id"] === head;
    if (isOwn && rest.length === 0) return [step];
    const isLoop = step["shape"] === "loop"; // a number follows its id
    const isClosed = isLoop || step["shape"] === "child";
    const inside = !isClosed ? path : isOwn ? rest.slice(isLoop ? 1 : 0) : undefined;
    const found = inside && findSteps(step["steps"], inside, depth + 1);
    if (found) return isClosed ? [step, ...found] : found;
  }
  return undefined;
}

/**
 * Sends the answer. The server responds only when the execution ends or suspends again. The state is polled in the
 * meantime, so that the execution can be followed as soon as it continues. Resolves to the error if the answer was
 * rejected.
 */
export async function resume(
  client: Client,
  execution: Execution,
  pending: PendingStep,
  resumeData: unknown,
  signal: AbortSignal,
): Promise<RefusalError | undefined> {
  const leaving = new AbortController();
  const both = AbortSignal.any([leaving.signal, signal]);
  // The step is named, so that the answer cannot reach another branch if this one has been answered in the meantime.
  const body = { resumeData, ...(pending.others > 0 && { options: { stepId: pending.stepId } }) };
  const answered = client.post(`${execution.path}/resume`, { body, signal: both }).then(
    () => ({ error: undefined as unknown }),
    (error: unknown) => ({ error }),
  );
  const goesOn = async (): Promise<boolean> => hasMoved(await client.get(`${execution.path}/state`), pending);
  try {
    for (let wait = 25; ; wait = Math.min(wait * 2, 1_000)) {
      const pause = sleep(wait, undefined, { signal: both }).catch(() => undefined);
      const answer = await Promise.race([answered, pause]);
      const { error } = answer ?? {};
      if (error !== undefined && !(error instanceof RefusalError) && !(error instanceof ConnectionError)) throw error;
      // After a lost connection, the caller attaches to the execution again.
      const isDone = answer && !(error instanceof RefusalError);
      if (isDone || (await goesOn().catch(() => false))) return undefined;
      if (error instanceof RefusalError) return error;
    }
  } finally {
    leaving.abort(); // a disconnect does not cancel the execution
  }
}

function hasMoved(state: unknown, pending: PendingStep): boolean {
  const { status, suspension } = toObject(state);
  const isSame = (one: Record<string, unknown>): boolean =>
    one["stepId"] === pending.stepId && one["suspendedAt"] === pending.suspendedAt;
  return status !== "suspended" || !toBranches(suspension).some(isSame);
}
