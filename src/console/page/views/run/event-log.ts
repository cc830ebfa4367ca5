import { signal } from "@preact/signals";
import { readEvents, toBackOff } from "../../server/api.ts";
import { executionPath, type ExecutionRef } from "../../executions.ts";

/** An event of an execution. Those of `emit` have no `seq`. */
export interface RunEvent {
  readonly type: string;
  readonly timestamp: string;
  readonly seq?: number;
  readonly from?: string;
}

const max = 10_000;

/** The events of an execution, the newest 10,000. Each `seq` is in it once, also over a restart of the server. */
export class EventLog {
  /** Changes with each part that was read. */
  readonly version = signal(0);
  readonly problem = signal<string | undefined>(undefined);
  events: RunEvent[] = [];
  /** The number of older events that are no longer kept. */
  dropped = 0;
  readonly #of: ExecutionRef;
  readonly #onEvent: () => void;
  #last = 0;
  #controller: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(of: ExecutionRef, onEvent: () => void) {
    this.#of = of;
    this.#onEvent = onEvent;
  }

  /** Reads until the execution ends. Continues after the last known event. */
  start(): void {
    if (this.#controller) return;
    this.#controller = new AbortController();
    void this.#read(this.#controller);
  }
  stop(): void {
    this.#controller?.abort();
    this.#controller = undefined;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #read(controller: AbortController): Promise<void> {
    const { signal: until } = controller;
    for (let failures = 0; !until.aborted;) {
      let isEnded = false;
      try {
        const path = `${executionPath(this.#of)}/stream?until=end&after=${this.#last}`;
        for await (const event of readEvents(path, { signal: until, onOpen: () => (failures = 0) })) {
          isEnded = this.#add(event as RunEvent); // the route has only these
        }
        this.problem.value = undefined;
      } catch (error) {
        if (until.aborted) return;
        failures++;
        this.problem.value = error instanceof Error ? error.message : String(error);
      }
      if (isEnded && this.#controller === controller) return void (this.#controller = undefined);
      await new Promise((resolve) => setTimeout(resolve, toBackOff(failures)));
    }
  }

  /** Returns true if it is the result, which is the last event. */
  #add(event: RunEvent): boolean {
    const isResult = event.seq === undefined && event.type === "workflow-result";
    if (event.seq !== undefined) {
      if (event.seq <= this.#last) return false;
      this.#last = event.seq;
    }
    // A result is sent again to a reader that comes back.
    if (isResult && this.events.at(-1)?.type === "workflow-result") return true;
    this.events.push(event);
    if (this.events.length > max) this.dropped += this.events.splice(0, this.events.length - max).length;
    this.#onEvent();
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.version.value++;
    }, 100);
    return isResult;
  }
}
