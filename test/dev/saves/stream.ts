import { createInterface } from "node:readline";
import type { Client } from "./client.ts";
import { within } from "../../harness/waiting.ts";

interface StreamEvent {
  readonly type: string;
  readonly seq?: number;
  readonly [key: string]: any;
}

/** The events of one SSE response, as they came. */
export interface Stream {
  readonly events: readonly StreamEvent[];
  /** Resolves to the first event that this holds for, old or new; rejects when the stream ends without it. */
  find(what: string, is: (event: StreamEvent) => boolean): Promise<StreamEvent>;
  isOpen(): boolean;
  /** Resolves at its end. Rejects when it was cut, or when its events are not whole and in order. */
  readonly ended: Promise<void>;
}

export async function openStream(client: Client, method: string, path: string, body?: unknown): Promise<Stream> {
  const response = await client.open(method, path, body);
  const events: StreamEvent[] = [];
  let isOpen = true;
  let wake = Promise.withResolvers<void>();

  async function read(): Promise<void> {
    try {
      for await (const line of createInterface({ input: response })) {
        if (!line.startsWith("data: ")) continue;
        events.push(JSON.parse(line.slice(6)));
        wake.resolve();
        wake = Promise.withResolvers();
      }
      if (!response.complete) throw new Error(`${path} was cut`);
      checkOrder(path, events);
    } finally {
      isOpen = false;
      wake.resolve();
    }
  }
  const ended = read();
  ended.catch(() => {}); // whoever waits for it hears of it

  async function find(what: string, is: (event: StreamEvent) => boolean): Promise<StreamEvent> {
    for (let index = 0; ;) {
      const event = events[index];
      if (event && is(event)) return event;
      if (event) index++;
      else if (isOpen) await wake.promise;
      else throw new Error(`${path} ended without ${what}`);
    }
  }
  return {
    events,
    find: (what, is) => within(find(what, is), () => `${what} on ${path}, which has ${JSON.stringify(events.at(-1))}`),
    isOpen: () => isOpen,
    ended,
  };
}

/** Lifecycle events by their number, the author's own by theirs, and the result at the end. */
function checkOrder(path: string, events: readonly StreamEvent[]): void {
  const numbers = events.flatMap(({ seq }) => (seq === undefined ? [] : [seq]));
  if (numbers.some((seq, index) => index > 0 && seq <= numbers[index - 1]!))
    throw new Error(`${path}: events in disorder`);
  const ticks = events.filter(({ type }) => type === "tick");
  if (ticks.some(({ count }, index) => index > 0 && count !== ticks[index - 1]!["count"] + 1)) {
    throw new Error(`${path}: a tick is missing`);
  }
  if (events.at(-1)?.type !== "workflow-result") throw new Error(`${path} ended without its result`);
}
