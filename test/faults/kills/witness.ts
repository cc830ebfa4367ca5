import { isDeepStrictEqual } from "node:util";
import type { Log } from "./log.ts";
import { endsByItself, toExpectedWait } from "./waits.ts";
import { asking, before, expect, failures, isCopied, steps, waiting, type Asked } from "./oracle.ts";

/** What an answer says of an execution, wherever it was found. */
export interface View {
  readonly status: "running" | "suspended" | "completed" | "error";
  readonly startAt: string;
  readonly endAt: string | null;
  readonly result: unknown;
  readonly suspension?: any;
  readonly error?: string;
  readonly cancellation?: { reason: string };
}
export function toView({ status, startAt, endAt, result = null, suspension, error, cancellation }: any): View {
  // Suspended by the server after three crashes: as if it were running, because its client resumes it at once.
  if (isInterrupted(suspension)) return { status: "running", startAt, endAt, result };
  const { suspendedStepIndex, ...rest } = suspension ?? {};
  return {
    status,
    startAt,
    endAt,
    result,
    ...(suspension && {
      suspension: suspendedStepIndex === undefined ? rest : { ...rest, stepIndex: suspendedStepIndex },
    }),
    ...(error !== undefined && { error }),
    ...(cancellation && { cancellation }),
  };
}
export const isInterrupted = (suspension: any): boolean =>
  suspension?.kind === "system" && suspension.reason === "Interrupted 3 times by a crash";

/** The event with which each status is reached. */
export const closingEvents: { readonly [status in View["status"]]: string } = {
  running: "none",
  suspended: "workflow-suspended",
  completed: "workflow-complete",
  error: "workflow-error",
};
export const isEnd = ({ status }: View): boolean => status === "completed" || status === "error";

/** From `from` on, up to `to`, no step may begin. */
interface Hold {
  readonly from: number;
  to: number;
  readonly why: string;
}

/** All that one execution's client has seen. Whatever it sees next must agree, in this life and in every later one. */
export class Witness {
  readonly id: string;
  readonly asked: Asked;
  /** The events that a reader was given. */
  readonly events: any[] = [];
  /** Whether a client has been told of it. From then on it may not be lost. */
  acknowledged = false;
  /** Grows with what is known, so that an answer to an older question can be told from news. */
  version = 0;
  /** How often somebody has asked to resume or to retry it. */
  releases = 0;
  /** The failures that were seen. The last one may not have been retried yet. */
  readonly failures: View[] = [];
  /** For each failure, the place in the log at which its first retry was sent. */
  readonly retried: number[] = [];
  /** The number of failures whose retry has surely taken effect. */
  retriesTaken = 0;
  /** Its end. */
  final: View | undefined;
  /** The last suspension seen. */
  suspension: any;
  suspendReason: string | undefined;
  /** The reasons of the cancels that were sent. A child that is cancelled with its parent has those of the parent. */
  cancelReasons: Set<string> = new Set();
  /** Tokens that were told to have lost, or must not be handed over. */
  readonly lost: Set<string> = new Set();
  readonly won: Set<string> = new Set();
  /** Suspensions that were seen, and are over. */
  readonly past: unknown[] = [];
  readonly holds: Hold[] = [];
  /** Code that may not run again after a place of the log. */
  readonly done: { path: string; at: number; why: string }[] = [];
  readonly log: Log;
  #startAt: string | undefined;
  /** Suspended, and nobody has asked to resume it. */
  #held: Hold | undefined;

  constructor(id: string, asked: Asked, log: Log) {
    this.id = id;
    this.asked = asked;
    this.log = log;
  }

  fail(what: string): never {
    const lines = this.log.of(this.id).map((line) => `  ${Object.values(line).join(" ")}`);
    throw new Error(`${this.asked.workflow} ${this.id} ${what}\n${lines.join("\n")}`);
  }

  saw(view: View): void {
    this.acknowledged = true;
    this.#startAt ??= view.startAt;
    if (view.startAt !== this.#startAt) this.fail(`began at ${this.#startAt}, and now at ${view.startAt}`);
    if (this.final) {
      if (!isDeepStrictEqual(view, this.final)) this.fail(`ended ${show(this.final)}, and is now ${show(view)}`);
      return;
    }
    if (this.isFailure(view)) return this.#failed(view);
    if (this.failures.length > this.retried.length)
      this.fail(`had failed, nobody retried it, and now it is ${show(view)}`);
    this.retryTaken();
    const { suspension } = view;
    if (suspension && this.past.some((one) => isDeepStrictEqual(one, suspension)))
      this.fail(`went back to a suspension that was over: ${show(suspension)}`);
    if (this.#held && !this.#mayFollow(view))
      this.fail(`was suspended, nobody resumed it, and now it is ${show(view)}`);
    if (isDeepStrictEqual(suspension, this.suspension) && !isEnd(view)) return;
    if (this.suspension) this.past.push(this.suspension);
    this.suspension = suspension;
    this.version++;
    if (isEnd(view)) this.#end(view);
    if (!suspension) return;
    this.#checkSuspension(suspension);
    if (!endsByItself(suspension)) this.#held ??= this.hold("it was seen suspended");
  }

  /** Whether it has failed and is to be retried. */
  isFailure({ status, cancellation }: View): boolean {
    return status === "error" && !cancellation && this.asked.settings.broken;
  }

  #failed(view: View): void {
    const { failures: seen, retried, retriesTaken } = this;
    const last = seen.findLastIndex((one) => isDeepStrictEqual(one, view));
    if (last >= 0 && last < retriesTaken) this.fail(`went back to a failure that was retried: ${show(view)}`);
    if (last >= 0) return;
    if (this.#held || seen.length > retried.length) this.fail(`failed, and nobody had continued it: ${show(view)}`);
    if (!failures(this.asked).includes(view.error ?? "")) this.fail(`failed with ${show(view)}`);
    if (seen.length >= this.asked.retries) this.fail(`failed when it was mended: ${show(view)}`);
    this.retryTaken();
    if (this.suspension) this.past.push(this.suspension);
    this.suspension = undefined;
    seen.push(view);
    this.version++;
    this.#held ??= this.hold("it was seen failed");
  }

  /** The last failure that was retried is over. */
  retryTaken(): void {
    if (this.retriesTaken < this.retried.length) this.version++;
    this.retriesTaken = this.retried.length;
  }

  /** Somebody is about to ask to retry it. Returns the place in the log. */
  retry(): number {
    const at = this.release();
    this.retried[this.failures.length - 1] ??= at;
    return at;
  }

  /** The number of retries before a place in the log. */
  segmentOf(at: number): number {
    return this.retried.filter((place) => at > place).length;
  }

  #mayFollow(view: View): boolean {
    if (view.cancellation) return true;
    if (view.status !== "suspended") return false;
    return this.suspension
      ? isDeepStrictEqual(view.suspension, this.suspension)
      : view.suspension.reason === this.suspendReason;
  }

  #end(view: View): void {
    const { asked } = this;
    this.final = view;
    this.#held = this.hold("it was seen ended");
    const { results, error } = expect(asked, this.tokens());
    if (view.cancellation) {
      if (!this.cancelReasons.has(view.cancellation.reason)) this.fail(`was cancelled by nobody: ${show(view)}`);
    } else if (
      view.status === "error" ? view.error !== error : !results.some((one) => isDeepStrictEqual(one, view.result))
    )
      this.fail(`ended ${show(view)}, expected ${error ?? show(results)}`);
  }

  #checkSuspension({ suspendedAt, ...found }: any): void {
    const { workflow } = this.asked;
    if (found.reason === this.suspendReason) {
      // Beside its steps, an iteration of a loop has its condition.
      const isPlace = steps(workflow).some((id) => id === found.stepId || id.startsWith(`${found.stepId}/`));
      if (!isPlace || found.stepIndex < 0 || found.kind !== "request" || Object.keys(found).length !== 4)
        this.fail(`is suspended by request at ${show(found)}`);
      return;
    }
    if (workflow === "post") {
      const wanted = toExpectedWait(this.asked, this.id, { suspendedAt, ...found });
      if (!suspendedAt || !isDeepStrictEqual({ suspendedAt, ...found }, wanted))
        this.fail(`is suspended with ${show(found)}, expected ${show(wanted)}`);
      return;
    }
    const pending = waiting(this.asked, this.log.of(this.id));
    const expected = { ...pending[0], ...(pending.length > 1 && { pending }) };
    const seen = structuredClone(found);
    for (const branch of seen.pending ?? []) delete branch.suspendedAt;
    if (!suspendedAt || !isDeepStrictEqual(seen, expected))
      this.fail(`is suspended with ${show(found)}, expected ${show(expected)}`);
  }

  /** What each step that asks was resumed with at last. */
  tokens(): Map<string, string> {
    const copied = [...(this.asked.origin?.tokens ?? [])].filter(([path]) => isCopied(this.asked, path));
    const begun = this.log
      .of(this.id)
      .filter(({ path, token }) => asking(this.asked.workflow).includes(path) && token !== "-");
    return new Map([...copied, ...begun.map(({ path, token }) => [path, token] as const)]);
  }

  /** From now on no step may begin, until somebody asks to resume it. */
  hold(why: string, from = this.log.now()): Hold {
    const hold = { from, to: Infinity, why };
    this.holds.push(hold);
    return hold;
  }

  /** A suspension by request was acknowledged: it is suspended, whether or not anybody has looked. */
  suspended(): void {
    if (this.final || this.suspension?.reason === this.suspendReason) return;
    if (this.suspension) this.past.push(this.suspension);
    this.suspension = undefined;
    this.version++;
    this.#held ??= this.hold("its suspension was acknowledged");
  }

  /** Somebody is about to ask to resume it. Returns the place in the log. */
  release(): number {
    const at = this.log.now();
    for (const hold of this.holds) hold.to = Math.min(hold.to, at);
    this.#held = undefined;
    this.version++;
    this.releases++;
    return at;
  }

  /** A reader was given an event: each `seq` once, in order. */
  event(event: any): void {
    const next = this.events.length + 1;
    if (event.seq !== next) this.fail(`sent its reader seq ${event.seq}, expected ${next}: ${show(event)}`);
    this.acknowledged = true;
    this.events.push(event);
    const at = this.log.now();
    const why = `its reader saw ${event.type} ${event.from}`;
    if (event.type === "step-start")
      for (const path of before(this.asked.workflow, event.from)) this.recorded(path, why, at);
    if (event.type === "step-complete")
      for (const suffix of ["", "?", ">"]) this.recorded(event.from + suffix, why, at);
  }

  /** From this place of the log on, the code of this path may not run again. */
  recorded(path: string, why: string, at: number): void {
    this.done.push({ path, why, at });
  }
}

const show = (value: unknown): string => JSON.stringify(value);
