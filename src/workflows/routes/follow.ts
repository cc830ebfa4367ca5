import type { Engine } from "../../engine/contract/engine.ts";
import { EventWithId, noContent } from "../../http/sse.ts";
import { toEventView, toResultEvent } from "../results.ts";
import { toExecutionError, type WorkflowRoutesOptions } from "./replies.ts";

export type EventViews = AsyncGenerator<Record<string, unknown> | EventWithId | typeof noContent>;

export interface FollowOptions {
  readonly signal: AbortSignal;
  /** The `seq` of the last event that the client has. @default 0 */
  readonly after?: number | undefined;
  /** True if the client has the result event after it. @default false */
  readonly hasResult?: boolean | undefined;
  /** `end` if a suspension does not end the events. */
  readonly until?: "end" | undefined;
}

/**
 * Yields the events of an execution, then its result, unless the client has all of it. An error before the first event is
 * one about the execution.
 */
export async function* follow(
  { engine, showErrors }: WorkflowRoutesOptions,
  happening: ReturnType<Engine["events"]>,
  id: string,
  { signal, after = 0, hasResult = false, until }: FollowOptions,
): EventViews {
  let last = after;
  let hasBegun = false;
  try {
    for await (const event of happening) {
      hasBegun = true;
      last = event.seq ?? last;
      yield toEventView(event, showErrors);
    }
  } catch (error) {
    throw hasBegun ? error : toExecutionError(error, id);
  }
  if (signal.aborted) return;
  const state = await engine.state(id);
  // A stream that ends without a result event tells the client to query the state, or to attach again.
  if (!state || state.status === "running" || (until === "end" && state.status === "suspended")) return;
  if (hasResult && !hasBegun) yield noContent;
  else yield new EventWithId(toResultEvent(state, showErrors, engine.clock.now()), `${last}.end`);
}
