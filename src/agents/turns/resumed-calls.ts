import { setTimeout as sleep } from "node:timers/promises";
import { clientLeft, ServeError } from "../../core/error.ts";
import type { ConversationKey, Conversations } from "../../engine/contract/conversations.ts";
import type { PendingExecution } from "../call/call.ts";
import type { Operation } from "../call/operation.ts";
import type { WaitingAnswer } from "../call/turn-parts.ts";
import type { ResumedExecution } from "../tools/outside.ts";
import { SuspendedCall } from "../tools/no-result.ts";
import type { LiveTurn } from "./live-turn.ts";

/** Executions that a client has resumed by a tool result. */
export interface ResumedCalls {
  /**
   * Waits until each of them has ended or is suspended. Returns those that are suspended; or, if none is, the turn that continues
   * the answer.
   */
  settled(signal: AbortSignal): Promise<SettledCalls>;
  close(): void;
}
interface SettledCalls {
  readonly suspensions: readonly PendingExecution[];
  readonly next?: LiveTurn | undefined;
  /** True if another process has begun that turn. */
  readonly isElsewhere: boolean;
}
type Conversation = Pick<Conversations, "findCall" | "elsewhere">;

/** The requests that wait for the turn that continues an answer, by the execution that the answer waits for. */
export class ExpectedTurns {
  /** Several may wait for one execution: a request whose resume is refused leaves the others waiting. */
  readonly #expected = new Map<string, Set<PromiseWithResolvers<LiveTurn | undefined>>>();
  readonly #conversations: Conversation;
  readonly #findTurn: (key: ConversationKey) => LiveTurn | undefined;

  constructor(conversations: Conversation, findTurn: (key: ConversationKey) => LiveTurn | undefined) {
    this.#conversations = conversations;
    this.#findTurn = findTurn;
  }

  /** Resumes the executions that calls of a message wait for, with the data that the client sent. */
  async resume(
    { outside, callContext }: Operation,
    { resumes = [] }: WaitingAnswer,
    key: ConversationKey,
  ): Promise<ResumedCalls> {
    const next = Promise.withResolvers<LiveTurn | undefined>();
    next.promise.catch(() => {}); // nothing waits for it if an execution is suspended again
    const ids = resumes.map(({ executionId }) => executionId);
    for (const id of ids) this.#expected.set(id, (this.#expected.get(id) ?? new Set()).add(next));
    const close = (): void => ids.forEach((id) => this.#remove(id, next));
    try {
      // If one of several is wrong, none is resumed.
      for (const { executionId, data } of resumes.length > 1 ? resumes : [])
        await outside.checkResume(executionId, data, callContext);
      const resumed: ResumedExecution[] = [];
      for (const { executionId, data } of resumes) resumed.push(await outside.resume(executionId, data, callContext));
      return {
        close,
        settled: async (signal) => {
          const ends = await Promise.all(resumed.map((one) => one.settled(signal)));
          const suspensions = ends.flatMap((end) => (end instanceof SuspendedCall ? [{ ...end, toolCallId: "" }] : []));
          if (ids.length === 0 || suspensions.length > 0) return { suspensions, isElsewhere: false };
          if (this.#conversations.elsewhere) void this.#look(ids, key, signal);
          const turn = await unlessLeft(next.promise, signal);
          return { suspensions, next: turn, isElsewhere: turn === undefined };
        },
      };
    } catch (error) {
      close();
      throw error;
    }
  }

  /** Looks until the calls have an outcome: the turn that continues the answer has begun in this process, or in another one. */
  async #look(ids: readonly string[], key: ConversationKey, signal: AbortSignal): Promise<void> {
    const [id = ""] = ids;
    for (let pauseMs = 50; this.#expected.has(id) && !signal.aborted; pauseMs = Math.min(2 * pauseMs, 1_000)) {
      // While the store cannot be reached, the request waits.
      const calls = await Promise.all(ids.map((one) => this.#conversations.findCall(one, key))).catch(() => undefined);
      if (calls?.some((call) => !call || call.outcome?.approved === false)) return this.drop(id);
      if (calls?.every((call) => call?.outcome)) return this.begin(id, this.#findTurn(key));
      await sleep(pauseMs, undefined, { ref: false });
    }
  }

  /** The turn that continues the answer has begun. Undefined: in another process. */
  begin(executionId: string, turn: LiveTurn | undefined): void {
    for (const next of this.#expected.get(executionId) ?? []) next.resolve(turn);
  }

  /** No call waits for the execution any more: the user has continued without it. */
  drop(executionId: string): void {
    const error = new ServeError(409, "The conversation has continued", { retry: false });
    for (const next of this.#expected.get(executionId) ?? []) next.reject(error);
  }

  #remove(executionId: string, next: PromiseWithResolvers<LiveTurn | undefined>): void {
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
