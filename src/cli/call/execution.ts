import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../../core/user-error.ts";
import type { Client } from "./client.ts";
import type { ServerEvent } from "./events.ts";
import { ConnectionError, RefusalError } from "./failure.ts";

export interface ExecutionOptions {
  readonly client: Client;
  readonly workflowId: string;
  readonly id: string;
  /** Called before each reconnect. */
  readonly report: (line: string) => void;
}

// About 12 seconds in total, which is enough for a server to restart.
const waitsMs = [250, 500, 1_000, 2_000, 4_000, 4_000];

/** The types of the server's events. The server refuses them as types of an author's own events. */
const lifecycle = /^(workflow|step)-/;

/** An execution on the server, and the last event of it that was seen here. */
export class Execution {
  readonly id: string;
  readonly workflowId: string;
  readonly #client: Client;
  readonly #report: (line: string) => void;
  #seen = 0;

  constructor({ client, workflowId, id, report }: ExecutionOptions) {
    this.#client = client;
    this.id = id;
    this.workflowId = workflowId;
    this.#report = report;
  }

  get path(): string {
    return `/workflows/${this.workflowId}/executions/${this.id}`;
  }

  begin(input: unknown, conversationId: string | undefined, signal: AbortSignal): Promise<AsyncGenerator<ServerEvent>> {
    const options = { executionId: this.id, ...(conversationId !== undefined && { conversationId }) };
    return this.#client.stream("POST", `/workflows/${this.workflowId}/stream`, { body: { input, options }, signal });
  }

  attach(signal: AbortSignal): Promise<AsyncGenerator<ServerEvent>> {
    return this.#client.stream("GET", `${this.path}/stream?after=${this.#seen}`, { signal });
  }

  /** Yields each event up to the next suspension or the end once. Reconnects if the connection is lost. */
  async *follow(
    open: (signal: AbortSignal) => Promise<AsyncGenerator<ServerEvent>>,
    signal: AbortSignal,
  ): AsyncGenerator<ServerEvent> {
    let next = open;
    let tries = 0;
    let why = "";
    for (;;) {
      try {
        for await (const event of await next(signal)) {
          const { type, seq } = event;
          // Release 1 also sends the `seq` of custom events, which is not a journal position.
          if (typeof seq === "number" && lifecycle.test(type)) {
            if (seq <= this.#seen) continue;
            this.#seen = seq;
            tries = 0;
          }
          yield event;
          if (type === "workflow-result") return;
        }
        why = "the stream ended before the execution was complete";
      } catch (error) {
        why = reasonToRetry(error, next === open) ?? raise(next === open ? error : this.#explain(error));
      }
      next = (again) => this.attach(again);
      const wait = waitsMs[tries++];
      if (wait === undefined) throw this.#lost(why);
      this.#report(`${why}; reconnecting (${tries} of ${waitsMs.length})`);
      await sleep(wait, undefined, { signal }).catch((error: unknown) => raise(signal.aborted ? signal.reason : error));
    }
  }

  #explain(error: unknown): unknown {
    if (!(error instanceof RefusalError) || error.status !== 404) return error;
    return new UserError(`Execution ${this.id} not found: it was not started, or its data was deleted`);
  }

  #lost(why: string): UserError {
    return new UserError(`Lost the connection to execution ${this.id}: ${why}`, {
      hint: `it continues on the server; follow it with: npx agentserve call workflow ${this.workflowId} --execution ${this.id}${this.#client.target.flag}`,
    });
  }
}

/** Returns the reason of a failure if a retry may help, otherwise undefined. */
function reasonToRetry(error: unknown, isFirst: boolean): string | undefined {
  const isTransient =
    error instanceof RefusalError ? error.status === 503 && !isFirst : error instanceof ConnectionError;
  const wasNotSent = isFirst && error instanceof ConnectionError && !error.wasSent;
  return isTransient && !wasNotSent ? (error as Error).message : undefined;
}

function raise(error: unknown): never {
  throw error;
}
