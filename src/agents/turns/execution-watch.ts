import { setTimeout as sleep } from "node:timers/promises";
import { ServeError } from "../../core/error.ts";
import type { Logger } from "../../core/log.ts";
import type { Engine } from "../../engine/contract/engine.ts";
import type { ConversationKey, Conversations } from "../../engine/contract/conversations.ts";
import type { FoundCall } from "../../engine/stored/pending-calls.ts";
import type { ExecutionEnd } from "../tools/outside.ts";

export interface WatchParts {
  readonly engine: Pick<Engine, "changes">;
  readonly conversations: Pick<Conversations, "findCall" | "executionCalls" | "onExecutionEnd">;
  readonly logger: Logger;
  /** Returns the end of an execution. Undefined while it runs or waits. */
  readEnd(executionId: string): Promise<ExecutionEnd | undefined>;
  /** Begins the next turn of the answer. Rejects with 409 if the call has an outcome. */
  continueWith(call: FoundCall, end: ExecutionEnd): Promise<void>;
  /** Called if no call waits for a changed execution. */
  onDropped(executionId: string): void;
}

/**
 * Continues the answers whose tools wait for executions.
 *
 * W1. A call waits in the store, not in memory. The engine reports an end as a change, and then the call is read. A store with
 *     `onExecutionEnd` reports it to one replica after the other, until the next turn begins.
 * W2. All waiting calls are read after a start, and whenever changes may be missing. So an end between two processes is not
 *     lost. With `onExecutionEnd`, they are also read about once a minute: a replica may have older code, or miss an agent.
 * W3. The next turn of an answer begins in one commit with the outcome of the call. So it begins once.
 */
export class ExecutionWatch {
  readonly #parts: WatchParts;
  readonly #closed = new AbortController();
  readonly #checking = new Map<string, Check>();

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  /** Starts to watch, when the executions of the last process continue. */
  open(): void {
    const { conversations } = this.#parts;
    conversations.onExecutionEnd?.(async (executionId, key) => {
      await this.#continue(executionId, key);
      this.#closed.signal.throwIfAborted(); // another process continues the answer
    });
    if (conversations.onExecutionEnd) void this.#repeat(() => this.#checkAll(), pollMs);
    else void this.#repeat(() => this.#watch(), retryMs);
  }
  close(): void {
    this.#closed.abort();
  }

  /** Continues the answer after the end of an execution. Without effect if the store has `onExecutionEnd`. */
  check(executionId: string): void {
    if (!this.#parts.conversations.onExecutionEnd) void this.#continue(executionId);
  }

  /** Resolves when the answer continues, or need not. */
  #continue(executionId: string, key?: ConversationKey): Promise<void> {
    const running = this.#checking.get(executionId);
    if (running) running.isStale = true;
    if (running) return running.done;
    if (this.#closed.signal.aborted) return Promise.resolve();
    const check: Check = { isStale: false, done: Promise.resolve() };
    this.#checking.set(executionId, check);
    check.done = this.#run(executionId, check, key);
    return check.done;
  }

  async #run(executionId: string, check: Check, key: ConversationKey | undefined): Promise<void> {
    const isDropped = await this.#check(executionId, key);
    this.#checking.delete(executionId);
    if (check.isStale) return this.#continue(executionId, key);
    if (isDropped) this.#parts.onDropped(executionId);
  }

  async #repeat(work: () => Promise<void>, pauseMs: number): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      await work().catch((error: unknown) => {
        // The store logs its own outages.
        if (signal.aborted || (error instanceof ServeError && error.status === 503)) return;
        this.#parts.logger.warn("Tool calls that wait for executions could not be read", { error });
      });
      // Jitter: the replicas read at different times.
      await sleep(pauseMs * (0.75 + Math.random() / 2), undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #watch(): Promise<void> {
    const changes = this.#parts.engine.changes({}, this.#closed.signal); // before all calls are read: no end is missed
    const first = changes.next();
    await this.#checkAll();
    for (let next = await first; !next.done; next = await changes.next()) {
      const { executionId, status } = next.value;
      if (executionId.startsWith(prefix) && (status === "completed" || status === "error")) this.check(executionId);
    }
  }

  async #checkAll(): Promise<void> {
    let after: string | undefined;
    for (let hasMore = true; hasMore && !this.#closed.signal.aborted;) {
      const page = await this.#parts.conversations.executionCalls(after, pageSize);
      await Promise.all(page.calls.map(({ id, key }) => this.#continue(id, key)));
      after = page.calls.at(-1)?.cursor;
      hasMore = page.hasMore;
    }
  }

  /** Returns true if no call waits for the execution. */
  async #check(executionId: string, key: ConversationKey | undefined): Promise<boolean> {
    const { conversations, readEnd, continueWith, logger } = this.#parts;
    const { signal } = this.#closed;
    for (let delay = retryMs; !signal.aborted; delay = Math.min(delay * 2, maxRetryMs)) {
      try {
        const call = await conversations.findCall(executionId, key);
        if (call?.type !== "execution" || call.outcome) return true;
        const end = await readEnd(executionId);
        if (end) await continueWith(call, end);
        return false;
      } catch (error) {
        // The call has an outcome, or its conversation was deleted.
        if (signal.aborted || (error instanceof ServeError && [404, 409].includes(error.status))) return true;
        logger.warn("An answer that waited for an execution does not continue yet", { executionId, error });
        await sleep(delay, undefined, { signal, ref: false }).catch(() => {});
      }
    }
    return false;
  }
}

interface Check {
  /** True if the execution changed after it was read. */
  isStale: boolean;
  done: Promise<void>;
}

/** The prefix of execution ids from tools. */
const prefix = "child:";
const pageSize = 100;
const pollMs = 60_000;
const retryMs = 500;
const maxRetryMs = 60_000;
