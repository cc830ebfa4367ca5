import { toIso } from "../../core/iso-time.ts";
import { findCode } from "../definition/code-table.ts";
import type { Branch, EntryInput, WaitInput } from "../definition/definition.ts";
import type { Due, ParkedBranch } from "../execution.ts";
import type { AttemptPlan, EntryResult, ResumeInput } from "./decision.ts";
import { toEntryKey, toIdempotencyKey, toStableKey, toWakeKey } from "./journal-keys.ts";
import { toRetryDelay } from "./retry-delay.ts";
import type { Value } from "./value.ts";
import type { WalkState } from "./walk-state.ts";

/** The place of steps that share an input: the workflow, a sub-workflow, or an iteration of a loop. */
export interface StepScope {
  /** The beginning of their paths, and the same without the numbers of iterations. */
  readonly prefix: string;
  readonly codePrefix: string;
  /** The input of the workflow or sub-workflow. */
  readonly input: Value;
}

/** Waits for a time or an event. */
export function* runWait(
  state: WalkState,
  path: string,
  step: string,
  { kind, until, event, inlineMs, isSkippable }: WaitInput,
): Branch<Value> {
  const stableKey = toStableKey(path, "", state.generation);
  const due: Due | undefined =
    until && ("ms" in until ? { at: state.clock + until.ms, isElapsed: true } : { at: until.date });
  const branch: ParkedBranch<Value> = {
    stepIndex: state.stepIndex,
    stepId: path,
    kind,
    key: toWakeKey(stableKey, state.nextCount(`~${stableKey}`)),
    reason: event ? `Waiting for event ${event.name}` : `Sleeping until ${toIso(due!.at)}`,
    at: state.clock,
    due,
    event: event && { step, ...event },
    inlineMs,
    isSkippable: isSkippable || undefined,
  };
  const { data, isWake } = (yield { type: "park", branch }) as ResumeInput; // as Fibers sends it
  return isWake ? data : undefined;
}

/** Runs the attempts of one entry, up to a result. */
export function* runEntry(
  state: WalkState,
  { prefix, codePrefix, input }: StepScope,
  stepId: string,
  { iteration, suffix = "", data, argument, resumed: first, isTolerated }: EntryInput,
): Branch {
  const path = iteration === undefined ? prefix + stepId : `${prefix}${stepId}/${iteration}`;
  const codePath = codePrefix + stepId;
  const { retry } = findCode(state.codes, codePath, suffix);
  const stableKey = toStableKey(path, suffix, state.generation);
  const idempotencyKey = toIdempotencyKey(state.executionId, stableKey);
  const { stepIndex } = state;
  let resumed = first;
  for (let attempt = 1; ;) {
    const key = toEntryKey(stableKey, state.nextCount(stableKey));
    const delay = toRetryDelay(retry, attempt, idempotencyKey);
    const plan: AttemptPlan = {
      key,
      stepIndex,
      path,
      codePath,
      suffix,
      attempt,
      dueAt: delay === 0 ? undefined : state.clock + delay,
      idempotencyKey,
      data,
      argument,
      input,
      resumed,
    };
    // As Fibers sends it; undefined when the attempt was aborted and the execution is retried.
    const result = (yield { type: "entry", plan }) as EntryResult | undefined;
    if (!result) {
      attempt = 1;
    } else if ("suspended" in result) {
      const wakeKey = toWakeKey(stableKey, state.nextCount(`~${stableKey}`));
      const branch: ParkedBranch<Value> = { stepIndex, stepId: path, key: wakeKey, at: result.at, ...result.suspended };
      resumed = (yield { type: "park", branch }) as ResumeInput; // as Fibers sends it
      attempt = 1;
    } else if (!("error" in result)) {
      return { value: result.value, attempt, loop: "loop" in result ? result.loop : undefined };
    } else if (result.isFinal ?? (attempt >= retry.attempts || state.isCopied)) {
      if (isTolerated) return { value: undefined };
      yield { type: "fail", error: result.error };
      attempt = 1; // the execution is retried
    } else {
      attempt++;
    }
  }
}
