import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "./client.ts";
import type { Execution } from "./execution.ts";
import { ConnectionError, RefusalError } from "./failure.ts";
import type { PendingStep } from "./suspension.ts";

/**
 * Hands the answer over. The server replies only when the execution stops again: it is asked beside that whether it goes
 * on, so that it can be followed from then. Resolves to why the answer was refused, or to nothing.
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
  // Named, so that it reaches no other branch should somebody else have answered this one meanwhile.
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
      const isDone = answer && !(error instanceof RefusalError); // a connection that broke is made again by who follows it
      if (isDone || (await goesOn().catch(() => false))) return undefined;
      if (error instanceof RefusalError) return error;
    }
  } finally {
    leaving.abort(); // who leaves cancels nothing
  }
}

function hasMoved(state: unknown, { suspendedAt }: PendingStep): boolean {
  const { status, suspension } = (state ?? {}) as { status?: unknown; suspension?: { suspendedAt?: unknown } };
  return status !== "suspended" || suspension?.suspendedAt !== suspendedAt;
}
