import { toIso } from "../../core/iso-time.ts";
import { findCode, type CodeTable } from "../definition/code-table.ts";
import type { Branch, EntryInput, Retry, WaitInput } from "../definition/definition.ts";
import type { Due, Execution, ParkedBranch } from "../execution.ts";
import type { AttemptPlan, EntryResult, ResumeInput } from "./decision.ts";
import { toEntryKey, toIdempotencyKey, toStableKey, toWakeKey } from "./journal-keys.ts";
import type { Value } from "./value.ts";

/** The place of steps that share an input: the workflow, a sub-workflow, or an iteration of a loop. */
export interface StepScope {
  /** The path prefix of the steps. */
  readonly prefix: string;
  /** The path prefix without iteration numbers. */
  readonly codePrefix: string;
  /** The input of the workflow or sub-workflow. */
  readonly input: Value;
}

/** The place of a walk in time and in its workflow, as its branches read it. */
export class WalkState {
  readonly codes: CodeTable;
  readonly executionId: string;
  /** Steps before this one were copied from the original of a fork. */
  readonly #firstIndex: number;
  /** The start of a fork. The results that it copies are older. */
  readonly #forkedAt: number;
  /** The time of the last input. */
  clock: number;
  /** The number of resumes that went back to an earlier step. */
  generation = 0;
  /** The index of the top-level step that the walk has reached. */
  stepIndex = 0;
  /** The entry count of each stable key. */
  readonly #counts = new Map<string, number>();

  constructor(codes: CodeTable, { id, startAt, fork }: Execution) {
    this.codes = codes;
    this.executionId = id;
    this.#firstIndex = fork?.stepIndex ?? 0;
    this.#forkedAt = fork ? startAt : 0;
    this.clock = startAt;
  }

  /** The time of a result or a wake; in a fork at least the start time. */
  reach(at: number): void {
    this.clock = Math.max(at, this.#forkedAt);
  }

  /** The walk is at a step that was copied: each of its entries has one result, the last one of the original. */
  get isCopied(): boolean {
    return this.generation === 0 && this.stepIndex < this.#firstIndex;
  }

  /** Returns the next entry count of a stable key. An aborted entry has no journal row. */
  nextCount(stableKey: string): number {
    const count = (this.#counts.get(stableKey) ?? 0) + 1;
    this.#counts.set(stableKey, count);
    return count;
  }
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

/**
 * Returns the delay before an attempt, in whole milliseconds: `min(delay × backoff^(attempt − 2), maxDelay)`, and of that
 * the part `1 − jitter × h`. `h` is a hash of the step's idempotency key and the attempt, from 0 to 1. It differs between
 * executions, steps and attempts, and a replay finds the same delay.
 */
export function toRetryDelay(retry: Retry, attempt: number, idempotencyKey: string): number {
  const { delay = 0, backoff = 1, maxDelay = longestMs, jitter = 0 } = retry;
  if (attempt === 1 || delay === 0) return 0;
  const whole = Math.min(delay * backoff ** (attempt - 2), maxDelay, longestMs);
  return Math.round(jitter === 0 ? whole : whole * (1 - jitter * toFraction(`${idempotencyKey}#${attempt}`)));
}

/** A delay that grows without a limit would become infinite: the attempt would never start. */
const longestMs = Number.MAX_SAFE_INTEGER;

/** Maps a text evenly to a number from 0 to 1, without 1: FNV-1a, and the last steps of MurmurHash3. */
function toFraction(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
