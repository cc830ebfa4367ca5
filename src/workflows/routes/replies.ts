import * as v from "valibot";
import { clientLeft, DetailedError, ServeError } from "../../core/error.ts";
import type { Engine } from "../../engine/contract/engine.ts";
import type { ExecutionState, StoredError } from "../../engine/execution.ts";
import { Reply, type HeaderPairs } from "../../http/envelope.ts";
import { toResult } from "../results.ts";

export interface WorkflowRoutesOptions {
  readonly engine: Engine;
  /** True to show the message of every error, false to show only messages of `ServeError`. */
  readonly showErrors: boolean;
  /** Returns the code at which an attempt has failed, by the journal key of the attempt. @default no code is shown */
  readonly findFrame?: ((executionId: string, key: string) => string | undefined) | undefined;
  /** The largest data of an event, as JSON. */
  readonly stepValueBytes: number;
}

export const StartedShape: v.GenericSchema<{ executionId: string; status: "running" }> = v.pipe(
  v.object({ executionId: v.string(), status: v.literal("running") }),
  v.title("StartedExecution"),
);

export const idHeader = (id: string): HeaderPairs => [["x-execution-id", id]];
export const toReply = (state: ExecutionState): Reply =>
  new Reply(toResult(state), { headers: idHeader(state.execution.id) });
/** The response to `Prefer: respond-async`. */
export const toStartedReply = (id: string): Reply =>
  new Reply({ executionId: id, status: "running" }, { status: 202, headers: idHeader(id) });

/**
 * Counts a body as data in flight until its execution ends or suspends. A queued execution does not count: its input is
 * only in the store.
 */
export async function holdUntilSettled<T extends { id: string; epoch?: number; isWaiting?: boolean }>(
  engine: Engine,
  release: (() => void) | undefined,
  starting: Promise<T>,
): Promise<T> {
  if (!release) return starting;
  starting
    .then(({ id, epoch = 0, isWaiting }) => (isWaiting ? undefined : engine.settled(id, epoch)))
    .then(release, release);
  return starting;
}

/** Settles like `work`. An error is one about the execution. */
export async function about<T>(id: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw toExecutionError(error, id);
  }
}

/** The part of a request that says how long it waits. */
interface Wait {
  readonly headers: { readonly Prefer?: unknown };
  readonly request: Request;
}

/**
 * Waits for the end or the next suspension, unless the client prefers an answer at once. A client that disconnects ends the
 * wait, and the execution continues.
 */
export async function settle(
  { engine, showErrors }: WorkflowRoutesOptions,
  { id, epoch = 0 }: { readonly id: string; readonly epoch?: number },
  { headers, request: { signal } }: Wait,
): Promise<Reply> {
  if (headers.Prefer) return toStartedReply(id);
  const state = await engine.settled(id, epoch, signal).catch((error: unknown) => {
    throw toExecutionError(signal.aborted ? clientLeft() : error, id);
  });
  const { last } = state;
  if (last && "error" in last)
    throw toExecutionError(toFailure(last.error), id, showErrors ? last.error.message : undefined);
  if (last && "cancellation" in last) throw toExecutionError(new ServeError(409, `Execution ${id} was cancelled`), id);
  return toReply(state);
}

/** The answer to a failed execution. A 4xx of the author's code refuses the request. All other failures are hidden. */
function toFailure({ status, message }: StoredError): ServeError {
  return status === undefined ? new ServeError(500, "Failed to execute workflow") : new ServeError(status, message);
}

/** The error about a started execution, named in the body and in a header. */
export const toExecutionError = (error: unknown, executionId: string, detail?: string): DetailedError =>
  new DetailedError(error, { executionId, detail }, idHeader(executionId));
