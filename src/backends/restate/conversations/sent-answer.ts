import { setTimeout as sleep } from "node:timers/promises";
import { busy, ServeError } from "../../../core/error.ts";
import type { JsonText } from "../../../core/json.ts";
import { persist, type RestateClient } from "../client/client.ts";
import type { AnswerEnd, AnswerPage, AnswerCursor, PublishInput } from "./answers.ts";
import { outageMs } from "./local-line.ts";

interface AnswerParts {
  readonly client: RestateClient;
  readonly turnId: string;
}
interface Publication extends AnswerParts {
  readonly run: number;
  /** Aborted when the run is over without an end of the answer. */
  readonly signal: AbortSignal;
}

/** Min time between two batches. */
const batchMs = 100;
/** The characters after which a batch is sent. */
const batchSize = 1_000_000;
const retryMs = 500;

/** Publishes an answer in batches, for the readers of other replicas, until it ends or there is a later run. */
export async function publishAnswer(answer: AsyncGenerator<JsonText>, parts: Publication): Promise<void> {
  const { run, signal } = parts;
  const collector = new Collector();
  void collector.collect(answer);
  for (let number = 0; !signal.aborted; number++) {
    const { texts, end } = await collector.take();
    if (!(await publish(parts, { run, number, texts, end })) || end) return;
    await sleep(batchMs, undefined, { ref: false });
  }
}

/** The part of an answer that is not published yet. */
class Collector {
  #texts: JsonText[] = [];
  #size = 0;
  #end: AnswerEnd | undefined;
  #added = Promise.withResolvers<void>();
  #taken = Promise.withResolvers<void>();

  /** Reads an answer to its end. Waits while too much of it is not taken. */
  async collect(answer: AsyncGenerator<JsonText>): Promise<void> {
    try {
      for await (const text of answer) {
        this.#texts.push(text);
        this.#size += text.length;
        this.#added.resolve();
        if (this.#size > batchSize) await this.#taken.promise;
      }
      this.#end = {};
    } catch (error) {
      this.#end = { failure: toFailure(error) };
    }
    this.#added.resolve();
  }

  /** Takes all there is, once there is something. The end comes with the last texts. */
  async take(): Promise<Pick<PublishInput, "texts" | "end">> {
    await this.#added.promise;
    const taken = { texts: this.#texts, end: this.#end };
    this.#texts = [];
    this.#size = 0;
    this.#added = Promise.withResolvers();
    this.#taken.resolve();
    this.#taken = Promise.withResolvers();
    return taken;
  }
}

/** Tries through an outage. Resolves to false if there is a later run, or if the run is over: it sends no end then. */
async function publish({ client, turnId, signal }: Publication, input: PublishInput): Promise<boolean> {
  const call = (): Promise<boolean> => {
    signal.throwIfAborted();
    return client.write("answer/publish", turnId, input);
  };
  return await persist(call, { onFailure: () => signal.throwIfAborted() }).catch(() => false);
}

const toFailure = (error: unknown): AnswerEnd["failure"] =>
  error instanceof ServeError
    ? { status: error.status, message: error.message }
    : { status: 500, message: "Failed to execute agent" };

/** Reads the answer that another replica publishes, from its beginning. */
export async function* followAnswer({ client, turnId }: AnswerParts, signal: AbortSignal): AsyncGenerator<JsonText> {
  let place: AnswerCursor = { from: 0 };
  for (let failingSince: number | undefined; !signal.aborted;) {
    let page: AnswerPage;
    try {
      page = await client.read<AnswerPage>("answer/read", turnId, place);
      failingSince = undefined;
    } catch (error) {
      failingSince ??= performance.now();
      if (performance.now() - failingSince > outageMs) throw error;
      await sleep(retryMs, undefined, { ref: false });
      continue;
    }
    const { run, batches, end, isCut } = page;
    if (isCut) throw busy("The answer continues on another server", 1);
    place = { run: run || undefined, from: place.from + batches.length }; // 0: none is published
    for (const batch of batches) yield* batch;
    if (end?.failure) throw new ServeError(end.failure.status, end.failure.message);
    if (end) return;
    if (batches.length > 0) continue;
    const input = { turnId, ...place };
    await client.wait("answer", input, signal).catch(() => sleep(signal.aborted ? 0 : retryMs));
  }
}
