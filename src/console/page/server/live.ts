import { signal } from "@preact/signals";
import { readEvents, toBackOff } from "./api.ts";

/** A start of an execution, or a change of its status. */
export interface ExecutionChange {
  readonly type: "execution";
  readonly executionId: string;
  readonly workflowId: string;
  readonly status: ExecutionStatus;
  readonly kind?: SuspensionKind;
}
export type ExecutionStatus = "running" | "suspended" | "completed" | "error";
export type SuspensionKind = "person" | "request" | "timer" | "event" | "system";

/** The state of the change stream. */
export const connection = signal<"connecting" | "open" | "lost">("connecting");
/** Raised at each connection after the first one: the views read their values again. */
export const reconnects = signal(0);

const listeners = new Set<(change: ExecutionChange) => void>();
/** Registers a listener for changes, until the returned function is called. */
export function onChange(listener: (change: ExecutionChange) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Follows all executions with one stream, and connects again for as long as the page is open. The server ends the stream
 * after a save in `dev`: then at once, unless the stream was short.
 */
export async function follow(until: AbortSignal): Promise<void> {
  let isFirst = true;
  for (let failures = 0; !until.aborted;) {
    const startAt = performance.now();
    try {
      const onOpen = (): void => {
        failures = 0;
        connection.value = "open";
        if (!isFirst) reconnects.value++;
        isFirst = false;
      };
      for await (const change of readEvents("/executions/stream", { signal: until, onOpen })) {
        for (const listener of listeners) listener(change as ExecutionChange); // the route has only these events
      }
      if (performance.now() - startAt > minStreamMs) continue;
    } catch {
      if (until.aborted) return;
      failures++;
      connection.value = "lost";
    }
    await new Promise((resolve) => setTimeout(resolve, toBackOff(failures)));
  }
}

const minStreamMs = 1_000;
