import { until } from "../harness/waiting.ts";
import type { Replica } from "./replicas.ts";

/** An event of a stream, and when it arrived. */
export interface ReadEvent {
  readonly seq?: number;
  readonly type: string;
  readonly from?: string;
  readonly readAt: number;
}

/** Reads the stream of an execution over SSE, from its first event to its end. */
export async function readStream(
  replica: Replica,
  path: string,
  onEvent: (event: ReadEvent) => void = () => {},
): Promise<ReadEvent[]> {
  let response = await replica.get(path);
  await until(async () => {
    if (response.status !== 503) return true;
    response = await replica.get(path); // a busy machine
    return false;
  }, path);
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  const events: ReadEvent[] = [];
  let rest = "";
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop()!;
    for (const frame of frames) {
      const [, json] = /^data: (.*)$/m.exec(frame) ?? [];
      if (json === undefined) continue; // a comment
      const event = { ...(JSON.parse(json) as ReadEvent), readAt: Date.now() };
      events.push(event);
      onEvent(event);
    }
  }
  return events;
}

/** The numbers of the events, in the order in which they came. */
export const seqsOf = (events: readonly ReadEvent[]): number[] => events.flatMap(({ seq }) => seq ?? []);
