import { setTimeout as sleep } from "node:timers/promises";
import type { JsonSchema } from "../../core/json-schema.ts";
import { isObject, toObject } from "../../core/json.ts";
import type { Client } from "./client.ts";
import type { Execution } from "./execution.ts";
import { ConnectionError, RefusalError } from "./failure.ts";

/** A step that waits for an answer. */
export interface PendingStep {
  readonly stepId: string;
  readonly reason: string;
  readonly data?: unknown;
  readonly suspendedAt: string;
  /** The number of other steps that wait. */
  readonly others: number;
}

/** Returns the first step that waits. */
export function toPendingStep(suspension: unknown): PendingStep {
  const { pending, suspendedAt, ...first } = toObject(suspension);
  const all = Array.isArray(pending) ? pending : [];
  const { stepId, reason, data } = toObject(all[0] ?? first);
  return {
    stepId: String(stepId ?? ""),
    reason: String(reason ?? ""),
    ...(data !== undefined && { data }),
    suspendedAt: String(suspendedAt ?? ""),
    others: Math.max(all.length - 1, 0),
  };
}

/** Returns the schema of the answer: that of the step, else that of the workflow. Undefined if none is visible. */
export async function findResumeSchema(
  client: Client,
  workflowId: string,
  stepId: string,
): Promise<JsonSchema | undefined> {
  const detail = toObject(await client.get(`/workflows/${workflowId}`).catch(() => undefined));
  const own = findStep(detail["steps"], stepId.split("/"), 0)?.["resumeSchema"];
  // A step in a sub-workflow may use the resume schema of that workflow, which the API does not show.
  const schema = own ?? (stepId.includes("/") ? undefined : detail["resumeSchema"]);
  return isObject(schema) ? schema : undefined;
}

function findStep(steps: unknown, path: readonly string[], depth: number): Record<string, unknown> | undefined {
  if (!Array.isArray(steps) || depth > 32) return undefined;
  const [head, ...rest] = path;
  for (const step of steps.map(toObject)) {
    if (step["id"] === head && rest.length === 0) return step;
    const inside = step["type"] === "andWorkflow" ? (step["id"] === head ? rest : undefined) : path;
    const found = inside && findStep(step["steps"], inside, depth + 1);
    if (found) return found;
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

function hasMoved(state: unknown, { suspendedAt }: PendingStep): boolean {
  const { status, suspension } = (state ?? {}) as { status?: unknown; suspension?: { suspendedAt?: unknown } };
  return status !== "suspended" || suspension?.suspendedAt !== suspendedAt;
}
