import { isDeepStrictEqual } from "node:util";
import type { Client } from "./client.ts";
import { toExpected, toStamps, type History, type Stamps } from "./oracle.ts";
import { openStream, type Stream } from "./stream.ts";
import { within } from "../../harness/waiting.ts";

/** Executions that are always running: when one ends, the next begins, on the code of that moment. */
export interface Journeys {
  readonly count: { ended: number; maxSaves: number };
  /** Lets half of them go on to their next gate, after this save. Those at their end are checked, and others begin. */
  goOn(save: number): Promise<void>;
  /** How many the server says are running. */
  running(): Promise<number>;
  /** Lets all of them end. */
  finish(): Promise<void>;
}

interface Journey {
  readonly id: string;
  /** Of those that nobody reads, none: only the execution itself holds their version. */
  readonly stream: Stream | undefined;
  readonly stamps: Stamps;
  readonly save: number;
  gates: number;
}

const gates = 4;

export async function createJourneys(client: Client, history: History, size: number): Promise<Journeys> {
  const count = { begun: 0, ended: 0, maxSaves: 0 };

  async function begin(save: number): Promise<Journey> {
    const executionId = `journey-${count.begun++}`;
    const body = { input: {}, options: { executionId } };
    const isRead = count.begun % 2 === 0;
    const stream = isRead ? await openStream(client, "POST", "/workflows/journey/stream", body) : undefined;
    if (!isRead) await client.ask("POST", "/workflows/journey/execute", body, { prefer: "respond-async" });
    await client.ask("GET", `/arrival/${executionId}`);
    return { id: executionId, stream, stamps: history.current, save, gates: 0 };
  }

  async function pass(journey: Journey, save: number): Promise<Journey> {
    await client.ask("GET", `/arrival/${journey.id}`);
    await client.ask("POST", `/gates/${journey.id}`);
    if (++journey.gates < gates) return journey;
    await check(client, journey);
    count.ended++;
    count.maxSaves = Math.max(count.maxSaves, save - journey.save);
    return begin(save);
  }

  const running = await Promise.all(Array.from({ length: size }, () => begin(0)));
  // From the beginning on they are as far apart as they will always be.
  for (const [index, journey] of running.entries()) {
    for (let passed = 0; passed < index % gates; passed++) running[index] = await pass(journey, 0);
  }
  return {
    count,
    async goOn(save) {
      for (let index = save % 2; index < size; index += 2) running[index] = await pass(running[index]!, save);
    },
    async running() {
      return (await client.ask("GET", "/workflows/journey/executions?status=running")).data.items.length;
    },
    async finish() {
      for (const journey of running) {
        for (let passed = journey.gates; passed < gates; passed++) {
          await client.ask("GET", `/arrival/${journey.id}`);
          await client.ask("POST", `/gates/${journey.id}`);
        }
        await check(client, journey);
        count.ended++;
      }
    },
  };
}

/** Every step of it, those of a sub-workflow and of an agent too, ran the code that was served when it began. */
async function check(client: Client, { id, stamps, ...journey }: Journey): Promise<void> {
  const stream = journey.stream ?? (await openStream(client, "GET", `/workflows/journey/executions/${id}/stream`));
  await within(stream.ended, () => `the end of ${id}`);
  const { status, result } = stream.events.at(-1)!;
  if (status !== "completed" || result.length !== 6)
    throw new Error(`${id} ended as ${JSON.stringify(stream.events.at(-1))}`);
  for (const [index, step] of result.entries()) {
    const seen = toStamps(step);
    if (step.load !== result[0].load || !isDeepStrictEqual(seen, toExpected(seen, stamps))) {
      throw new Error(`${id}: step ${index} ran other code than it began with: ${JSON.stringify({ result, stamps })}`);
    }
  }
}
