import { setTimeout as sleep } from "node:timers/promises";
import { clientLeft, ServeError } from "../../core/error.ts";
import type { ConversationKey, Conversations } from "../../engine/contract/conversations.ts";
import type { PendingExecution } from "../call/answers/answer.ts";
import type { Operation } from "../call/operation.ts";
import type { WaitingAnswer } from "../call/history/turn-parts.ts";
import { SuspendedCall } from "../tools/no-result.ts";
import type { ResumedExecution } from "../tools/outside.ts";
import type { LiveTurn } from "./live-turn.ts";

/** The state of resumed executions when none of them runs. */
interface SettledCalls {
  readonly suspensions: readonly PendingExecution[];
  /** The turn that continues the answer, if no execution is suspended. */
  readonly next?: LiveTurn | undefined;
  /** True if that turn runs in another process. */
  readonly isElsewhere: boolean;
}
interface ResumeOptions {
  readonly operation: Operation;
  readonly waiting: WaitingAnswer;
  readonly key: ConversationKey;
  readonly signal: AbortSignal;
  /** Stores the decisions of the request, when the executions run. */
  store(): Promise<void>;
}
/** A request that waits for the turn after the end of its executions. */
interface ExpectedTurn extends PromiseWithResolvers<LiveTurn | undefined> {
  readonly executionIds: readonly string[];
}
type Conversation = Pick<Conversations, "findCall" | "elsewhere">;

/** The requests that wait for the next turn of an answer. Several may wait for one execution. */
export class ExpectedTurns {
  readonly #expected = new Set<ExpectedTurn>();
  readonly #conversations: Conversation;
  readonly #findTurn: (key: ConversationKey) => LiveTurn | undefined;

  constructor(conversations: Conversation, findTurn: (key: ConversationKey) => LiveTurn | undefined) {
    this.#conversations = conversations;
    this.#findTurn = findTurn;
  }

  /** Resumes the executions of a waiting answer with data from the client, and waits for them. */
  async resume({ operation, waiting, key, signal, store }: ResumeOptions): Promise<SettledCalls> {
    const { outside, callContext } = operation;
    const { resumes = [] } = waiting;
    const executionIds = resumes.map(({ executionId }) => executionId);
    const expected = { ...Promise.withResolvers<LiveTurn | undefined>(), executionIds };
    expected.promise.catch(() => {}); // nothing waits for it if an execution is suspended again
    this.#expected.add(expected);
    try {
      // If one of several is wrong, none is resumed.
      for (const { executionId, data } of resumes.length > 1 ? resumes : [])
        await outside.checkResume(executionId, data, callContext);
      const resumed: ResumedExecution[] = [];
      for (const { executionId, data } of resumes) resumed.push(await outside.resume(executionId, data, callContext));
      await store();
      const ends = await Promise.all(resumed.map((one) => one.settled(signal)));
      const suspensions = ends.flatMap((end) => (end instanceof SuspendedCall ? [{ ...end, toolCallId: "" }] : []));
      if (resumes.length === 0 || suspensions.length > 0) return { suspensions, isElsewhere: false };
      if (this.#conversations.elsewhere) void this.#poll(expected, key, signal);
      const next = await unlessLeft(expected.promise, signal);
      return { suspensions, next, isElsewhere: next === undefined };
    } finally {
      this.#expected.delete(expected);
    }
  }

  /** Polls the store until the calls have an outcome: the next turn runs in this process, or in another one. */
  async #poll(expected: ExpectedTurn, key: ConversationKey, signal: AbortSignal): Promise<void> {
    const { executionIds: ids, resolve, reject } = expected;
    for (let pauseMs = 50; this.#expected.has(expected) && !signal.aborted; pauseMs = Math.min(2 * pauseMs, 1_000)) {
      // During an outage of the store, the request waits.
      const calls = await Promise.all(ids.map((id) => this.#conversations.findCall(id, key))).catch(() => undefined);
      if (calls?.some((call) => !call || call.outcome?.approved === false)) return reject(hasContinued());
      if (calls?.every((call) => call?.outcome)) return resolve(this.#findTurn(key));
      await sleep(pauseMs, undefined, { ref: false });
    }
  }

  /** Ends the waits for an execution with the turn that continues the answer. */
  resolve(executionId: string, turn: LiveTurn): void {
    for (const { resolve } of this.#waitingFor(executionId)) resolve(turn);
  }

  /** Ends the waits for an execution with a 409: the user has continued without it. */
  reject(executionId: string): void {
    for (const { reject } of this.#waitingFor(executionId)) reject(hasContinued());
  }

  #waitingFor(executionId: string): ExpectedTurn[] {
    return [...this.#expected].filter(({ executionIds }) => executionIds.includes(executionId));
  }
}

const hasContinued = (): ServeError => new ServeError(409, "The conversation has continued", { retry: false });

/** Settles like a promise, unless the client disconnects before. */
function unlessLeft<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(clientLeft());
    signal.addEventListener("abort", () => reject(clientLeft()), { once: true });
    promise.then(resolve, reject);
  });
}
