import type { Client } from "./client.ts";
import { openStream, type Stream } from "./stream.ts";
import { within } from "../../harness/waiting.ts";

/** Executions that last from the first save to the last, each with many readers of its events. */
export interface Tickers {
  readonly streams: readonly Stream[];
  /** Has each of them emit an event. Resolves when every reader has it. */
  tick(): Promise<void>;
  /** Ends them. Resolves when every stream has ended with the result of the code that they began with. */
  stop(): Promise<void>;
}

export async function createTickers(client: Client, ids: readonly string[], readers: number): Promise<Tickers> {
  const streams: Stream[] = [];
  for (const executionId of ids) {
    streams.push(await openStream(client, "POST", "/workflows/ticker/stream", { input: {}, options: { executionId } }));
    await client.ask("GET", `/arrival/${executionId}`);
    const attach = `/workflows/ticker/executions/${executionId}/stream`;
    for (let index = 1; index < readers; index++) streams.push(await openStream(client, "GET", attach));
  }
  let count = 0;
  return {
    streams,
    async tick() {
      count++;
      for (const id of ids) await client.ask("POST", `/gates/${id}`);
      const got = streams.map((stream) => stream.find(`tick ${count}`, (event) => event["count"] === count));
      for (const { load } of await Promise.all(got))
        if (load !== 1) throw new Error(`a ticker ran the code of load ${load}`);
    },
    async stop() {
      for (const id of ids) await client.ask("POST", `/gates/${id}?say=stop`);
      await within(Promise.all(streams.map(({ ended }) => ended)), () => "the end of all streams");
      for (const { events } of streams) {
        if (events.at(-1)!["result"] !== 1) throw new Error(`a ticker ended as ${JSON.stringify(events.at(-1))}`);
      }
    },
  };
}
