import { clientLeft, ServeError } from "../../core/error.ts";
import type { PendingExecution } from "../call/call.ts";
import type { Operation } from "../call/operation.ts";
import type { WaitingAnswer } from "../call/turn-parts.ts";
import type { ToolTargets } from "../tools/outside.ts";
import { SuspendedCall } from "../tools/suspended-call.ts";
import type { LiveTurn } from "./live-turn.ts";

/** Executions that a client has resumed by a tool result. */
export interface ResumedCalls {
  /**
   * Waits until each of them has ended or is suspended. Returns those that are suspended; or, if none is, the turn that continues
   * the answer.
   */
  settled(signal: AbortSignal): Promise<{ suspensions: readonly PendingExecution[]; next?: LiveTurn | undefined }>;
  close(): void;
}

/** The requests that wait for the turn that continues an answer, by the execution that the answer waits for. */
export class ExpectedTurns {
  /** Several may wait for one execution: a request whose resume is refused leaves the others waiting. */
  readonly #expected = new Map<string, Set<PromiseWithResolvers<LiveTurn>>>();

  /** Resumes the executions that calls of a message wait for, with the data that the client sent. */
  async resume({ outside, callContext }: Operation, { resumes = [] }: WaitingAnswer): Promise<ResumedCalls> {
    const next = Promise.withResolvers<LiveTurn>();
    next.promise.catch(() => {}); // nothing waits for it if an execution is suspended again
    const ids = resumes.map(({ executionId }) => executionId);
    for (const id of ids) this.#expected.set(id, (this.#expected.get(id) ?? new Set()).add(next));
    const close = (): void => ids.forEach((id) => this.#remove(id, next));
    try {
      // If one of several is wrong, none is resumed.
      for (const { executionId, data } of resumes.length > 1 ? resumes : [])
        await outside.checkResume(executionId, data, callContext);
      const resumed: Awaited<ReturnType<ToolTargets["resume"]>>[] = [];
      for (const { executionId, data } of resumes) resumed.push(await outside.resume(executionId, data, callContext));
      return {
        close,
        async settled(signal) {
          const ends = await Promise.all(resumed.map((one) => one.settled(signal)));
          const suspensions = ends.flatMap((end) => (end instanceof SuspendedCall ? [{ ...end, toolCallId: "" }] : []));
          const continues = ids.length > 0 && suspensions.length === 0;
          return { suspensions, next: continues ? await unlessLeft(next.promise, signal) : undefined };
        },
      };
    } catch (error) {
      close();
      throw error;
    }
  }

  /** The turn that continues the answer has begun. */
  begin(executionId: string, turn: LiveTurn): void {
    for (const next of this.#expected.get(executionId) ?? []) next.resolve(turn);
  }

  /** No call waits for the execution any more: the user has continued without it. */
  drop(executionId: string): void {
    const error = new ServeError(409, "The conversation has continued", { retry: false });
    for (const next of this.#expected.get(executionId) ?? []) next.reject(error);
  }

  #remove(executionId: string, next: PromiseWithResolvers<LiveTurn>): void {
    const waiting = this.#expected.get(executionId);
    waiting?.delete(next);
    if (waiting?.size === 0) this.#expected.delete(executionId);
  }
}

/** Settles like a promise, unless the reader leaves before. */
function unlessLeft<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(clientLeft());
    signal.addEventListener("abort", () => reject(clientLeft()), { once: true });
    promise.then(resolve, reject);
  });
}
